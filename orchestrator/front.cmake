# The front end of the orchestrator: from a spec to what every replica gets.

add_library(smd_job STATIC job/job.c)
target_link_libraries(smd_job PUBLIC smd_base PkgConfig::JANSSON)

add_library(smd_contract STATIC contract/argv.c contract/cluster_spec.c contract/environment.c
	contract/expand.c contract/placement.c contract/summand.c contract/tf_config.c
	contract/torch.c contract/vertex.c)
target_link_libraries(smd_contract PUBLIC smd_job)
