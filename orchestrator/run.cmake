# The back end of the orchestrator: engines, and the runner of one job.

add_library(smd_engine_local STATIC engine/local.c engine/port.c engine/spawn.c engine/variables.c)
target_link_libraries(smd_engine_local PUBLIC smd_contract PRIVATE smd_agent smd_base)
add_dependencies(smd_engine_local summand-agent) # started at run time, from beside the program
