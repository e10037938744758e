# The back end of the orchestrator: engines, and the runner of one job.

add_library(smd_engine_local STATIC engine/local.c engine/port.c engine/spawn.c engine/variables.c)
target_link_libraries(smd_engine_local PUBLIC smd_contract PRIVATE smd_agent smd_base)
add_dependencies(smd_engine_local summand-agent) # started at run time, from beside the program

add_library(smd_runner STATIC runner/display.c runner/figures.c runner/jobdir.c runner/launch.c
	runner/lines.c runner/local_run.c runner/notice.c runner/obituary.c runner/output.c
	runner/record.c runner/replica.c runner/run.c runner/summary.c runner/tail.c)
target_link_libraries(smd_runner PUBLIC smd_contract PkgConfig::JANSSON
	PRIVATE smd_engine_local smd_agent smd_base PkgConfig::EVENT)
