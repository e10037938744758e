# The front end of the orchestrator: from a spec to what every replica gets.

add_library(smd_job STATIC job/job.c)
target_link_libraries(smd_job PUBLIC smd_base PkgConfig::JANSSON)

add_library(smd_contract STATIC contract/argv.c contract/cluster_spec.c contract/environment.c
	contract/expand.c contract/placement.c contract/summand.c contract/tf_config.c
	contract/torch.c contract/vertex.c)
target_link_libraries(smd_contract PUBLIC smd_job)

add_library(smd_spec STATIC spec/custom_job.c spec/decode.c spec/diagnostics.c spec/document.c
	spec/json_document.c spec/source.c spec/values.c spec/worker_pool.c spec/yaml_document.c)
target_link_libraries(smd_spec PUBLIC smd_job PkgConfig::YAML)

add_library(smd_plan STATIC plan/machine.c plan/plan.c plan/plan_report.c)
target_link_libraries(smd_plan PUBLIC smd_job m)

# Programs look for the catalogue in ../share/summand, in the build tree as well as installed.
configure_file(${CMAKE_SOURCE_DIR}/specs/machine_types.json
	${CMAKE_BINARY_DIR}/share/summand/machine_types.json COPYONLY)
install(FILES ${CMAKE_SOURCE_DIR}/specs/machine_types.json
	DESTINATION ${CMAKE_INSTALL_DATADIR}/summand)
