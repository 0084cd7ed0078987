# How C is compiled here: pye_module() for a folder of user/, pye_unit_test() for a cmocka test.

set(PYE_WARNINGS
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wundef
  -Wformat=2 -Wwrite-strings -Wpointer-arith -Wvla -Wimplicit-fallthrough -Wnull-dereference)
if(PYEBPF_WERROR)
  list(APPEND PYE_WARNINGS -Werror)
endif()

# Where the checkout lies is in no file that is built: two builds are the same bytes. A debugger finds the sources when
# it is started there.
set(PYE_PLACE -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=.)

function(pye_flags target)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE PYEBPF_VERSION="${PROJECT_VERSION}")
  target_compile_options(${target} PRIVATE ${PYE_WARNINGS} ${PYE_PLACE})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/user ${CMAKE_SOURCE_DIR}/bpf)
  if(PYEBPF_ASAN)
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined
                           -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  else()
    target_compile_options(${target} PRIVATE -fstack-protector-strong)
    target_compile_definitions(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2>)
    target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now)
  endif()
endfunction()

# pye_module(NAME SOURCES a.c b.c [USES module...] [LIBS library...])
# One static library per folder of user/, named pye_NAME. USES are modules it may include;
# tests/lint checks the includes against the layers of docs/design.md.
function(pye_module name)
  cmake_parse_arguments(M "" "" "SOURCES;USES;LIBS" ${ARGN})
  add_library(pye_${name} STATIC ${M_SOURCES})
  pye_flags(pye_${name})
  foreach(used ${M_USES})
    target_link_libraries(pye_${name} PUBLIC pye_${used})
  endforeach()
  target_link_libraries(pye_${name} PUBLIC ${M_LIBS})
  set_property(GLOBAL APPEND PROPERTY PYE_MODULES pye_${name})
endfunction()

# pye_unit_test(NAME MODULES module...): tests/unit/test_NAME.c with cmocka, label "unit".
function(pye_unit_test name)
  cmake_parse_arguments(T "" "" "MODULES;LIBS" ${ARGN})
  add_executable(test_${name} ${CMAKE_SOURCE_DIR}/tests/unit/test_${name}.c)
  pye_flags(test_${name})
  foreach(module ${T_MODULES})
    target_link_libraries(test_${name} PRIVATE pye_${module})
  endforeach()
  target_link_libraries(test_${name} PRIVATE ${T_LIBS} cmocka)
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES LABELS unit)
endfunction()
