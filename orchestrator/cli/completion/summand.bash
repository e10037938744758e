# Completion of summand for bash: summand itself says what may stand where the cursor is.

_summand() {
	local -a words=()
	local i line candidate last

	# bash takes --name=value apart at the "=".
	for ((i = 1; i <= COMP_CWORD; i++)); do
		last=${#words[@]}
		if ((last > 0)) && [[ ${words[last - 1]} == --* ]] &&
			[[ ${COMP_WORDS[i]} == "=" || ${words[last - 1]} == *= && ${COMP_WORDS[i - 1]} == "=" ]]; then
			words[last - 1]+=${COMP_WORDS[i]}
		else
			words+=("${COMP_WORDS[i]}")
		fi
	done
	last=${words[${#words[@]} - 1]}
	COMPREPLY=()
	while IFS= read -r line; do
		candidate=${line%%$'\t'*}
		case $candidate in
		:files | :dirs)
			[[ $last == --*=* ]] && last=${last#*=}
			compopt -o filenames 2>/dev/null
			if [[ $candidate == :dirs ]]; then
				mapfile -t COMPREPLY < <(compgen -d -- "$last")
			else
				mapfile -t COMPREPLY < <(compgen -f -- "$last")
			fi
			;;
		*)
			[[ $candidate == *= ]] && compopt -o nospace 2>/dev/null
			# What stands before the "=" is there already.
			[[ $last == --*=* && $COMP_WORDBREAKS == *=* ]] && candidate=${candidate#*=}
			COMPREPLY+=("$candidate")
			;;
		esac
	done < <("${COMP_WORDS[0]}" completion words -- "${words[@]}" 2>/dev/null)
}

complete -F _summand summand
