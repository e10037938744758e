# Completion of summand for fish: summand itself says what may stand where the cursor is.

function __summand_answers
    set -l words (commandline -opc) (commandline -ct)
    set -l last (commandline -ct)
    for line in ($words[1] completion words -- $words[2..-1] 2>/dev/null)
        switch $line
            case :files :dirs
                # --name=FILE: the path begins behind the "=".
                set -l before (string match -r -- '^--[^=]*=' $last; or echo '')
                set -l path (string replace -r -- '^--[^=]*=' '' $last)
                if test $line = :dirs
                    printf '%s\n' $before(__fish_complete_directories "$path")
                else
                    printf '%s\n' $before(__fish_complete_path "$path")
                end
            case '*'
                echo $line
        end
    end
end

complete -c summand -f -a '(__summand_answers)'
