# The Debian packages that tools/package makes: which components of the install rules each has, what it needs and says.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME summand)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(SUMMAND_MAINTAINER "Summand's maintainers <summand@summand.invalid>" CACHE STRING "who makes the packages: NAME <MAIL>")
set(CPACK_PACKAGE_CONTACT "${SUMMAND_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${CPACK_PACKAGE_CONTACT})
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES TRUE)
set(CPACK_DEB_COMPONENT_INSTALL TRUE)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL summand server library development nccl python)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS TRUE)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)

find_program(GZIP_PROGRAM gzip REQUIRED)
set(packaging ${CMAKE_CURRENT_LIST_DIR})
execute_process(COMMAND ${GZIP_PROGRAM} -9nc ${packaging}/changelog OUTPUT_FILE ${CMAKE_BINARY_DIR}/changelog.gz
	COMMAND_ERROR_IS_FATAL ANY)

# smd_package(COMPONENT NAME SUMMARY text DESCRIPTION text [SECTION section] [FIELD NAME value ...]...)
function(smd_package component name)
	cmake_parse_arguments(PARSE_ARGV 2 package "" "SUMMARY;DESCRIPTION;SECTION" "FIELDS")
	string(TOUPPER ${component} upper)
	set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
	set(CPACK_COMPONENT_${upper}_DESCRIPTION "${package_SUMMARY}\n${package_DESCRIPTION}" PARENT_SCOPE)
	if(package_SECTION)
		set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${package_SECTION} PARENT_SCOPE)
	endif()
	while(package_FIELDS)
		list(POP_FRONT package_FIELDS field value)
		set(CPACK_DEBIAN_${upper}_PACKAGE_${field} ${value} PARENT_SCOPE)
	endwhile()
	install(FILES ${packaging}/copyright ${CMAKE_BINARY_DIR}/changelog.gz
		DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
	# Last of all, as these lines stand behind those of the folders.
	install(CODE "
		file(GLOB pages \"\$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man?/*.[1-8]\")
		if(pages)
			execute_process(COMMAND ${GZIP_PROGRAM} -9nf \${pages} COMMAND_ERROR_IS_FATAL ANY)
		endif()" COMPONENT ${component})
endfunction()

smd_package(summand summand
	SUMMARY "run distributed training jobs that are described as worker pools"
	DESCRIPTION "Jobs are written in the format of Vertex AI's CustomJob. Summand checks and
plans them, gives every replica its environment, runs all replicas on this
machine, and exports them to other systems."
	FIELDS DEPENDS "libsummand0 (= ${PROJECT_VERSION})" RECOMMENDS summand-reduction-server SUGGESTS python3-summand)
smd_package(server summand-reduction-server
	SUMMARY "sum the gradients of a training job's workers"
	DESCRIPTION "A reduction server is a process without GPUs, to which workers send their
gradients once, and get the sums back.")
smd_package(library libsummand0 SECTION libs
	SUMMARY "all-reduce through reduction servers - library"
	DESCRIPTION "All-reduce, reduce, broadcast and barrier through a pool of reduction
servers, over TCP or RDMA, from C.")
smd_package(development libsummand-dev SECTION libdevel
	SUMMARY "all-reduce through reduction servers - development files"
	DESCRIPTION "The headers of libsummand, what pkg-config knows of it, and its manual page."
	FIELDS DEPENDS "libsummand0 (= ${PROJECT_VERSION})")
smd_package(nccl libnccl-net-summand SECTION libs
	SUMMARY "all-reduce through reduction servers - plugin for NCCL"
	DESCRIPTION "With this plugin, unmodified programs that use NCCL send their gradients
through reduction servers. NCCL itself is not part of Debian.")
smd_package(python python3-summand SECTION python
	SUMMARY "all-reduce through reduction servers - Python package"
	DESCRIPTION "Runs functions, scripts and jobs from Python, and averages the gradients of
PyTorch's DistributedDataParallel."
	FIELDS ARCHITECTURE all RECOMMENDS python3-torch
		DEPENDS "python3:any, libsummand0 (>= ${PROJECT_VERSION}), summand (>= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS FALSE)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${packaging}/python/postinst ${packaging}/python/prerm)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${packaging}/library/triggers ${packaging}/library/shlibs)
set(CPACK_DEBIAN_NCCL_PACKAGE_CONTROL_EXTRA ${packaging}/library/triggers)

include(CPack)
