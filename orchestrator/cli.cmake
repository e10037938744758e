# The program `summand`. Last, because it takes the runner in where that is built.

add_executable(summand cli/custom_jobs.c cli/env.c cli/loaded_job.c cli/main.c cli/verbs.c)
target_compile_definitions(summand PRIVATE SMD_VERSION="${PROJECT_VERSION}")
target_link_libraries(summand PRIVATE smd_contract smd_plan smd_spec smd_job smd_base)
if(TARGET smd_runner)
	target_sources(summand PRIVATE cli/local_run.c)
	target_compile_definitions(summand PRIVATE SMD_WITH_RUNNER)
	target_link_libraries(summand PRIVATE smd_runner)
endif()
install(TARGETS summand RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES cli/summand.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
