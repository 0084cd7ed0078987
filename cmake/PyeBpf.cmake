# pye_bpf(NAME FILES a.bpf.c b.bpf.c): compiles the BPF programs, links them to one object and
# generates the skeleton header NAME.skel.h, which only capture/ includes.

if(PYEBPF_BPF_CLANG)
  set(BPF_CLANG ${PYEBPF_BPF_CLANG})
else()
  find_program(BPF_CLANG NAMES clang-19 clang-18 clang-17 clang-16 clang-15 clang-14 clang REQUIRED)
endif()
find_program(BPFTOOL NAMES bpftool PATHS /usr/sbin /sbin REQUIRED)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(BPF_ARCH arm64)
else()
  set(BPF_ARCH x86)
endif()

function(pye_bpf name)
  cmake_parse_arguments(B "" "" "FILES" ${ARGN})
  set(objects)
  foreach(file ${B_FILES})
    get_filename_component(stem ${file} NAME_WE)
    set(object ${CMAKE_BINARY_DIR}/bpf/${stem}.bpf.o)
    # -mcpu=v3: clang 14 needs it for atomics that return a value
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/bpf
      COMMAND ${BPF_CLANG} -target bpf -mcpu=v3 -g -O2 -std=gnu17 -Wall -Wextra -Wno-unused-parameter -Werror ${PYE_PLACE}
              -D__TARGET_ARCH_${BPF_ARCH} -I${CMAKE_SOURCE_DIR}/bpf -I${CMAKE_SOURCE_DIR}/vmlinux
              -MD -MT ${object} -MF ${object}.d -c ${file} -o ${object}
      DEPENDS ${file}
      DEPFILE ${object}.d
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(linked ${CMAKE_BINARY_DIR}/bpf/${name}.o)
  set(skeleton ${CMAKE_BINARY_DIR}/bpf/${name}.skel.h)
  add_custom_command(
    OUTPUT ${skeleton}
    COMMAND ${BPFTOOL} gen object ${linked} ${objects}
    COMMAND ${BPFTOOL} gen skeleton ${linked} name ${name}_bpf > ${skeleton}
    DEPENDS ${objects}
    VERBATIM)
  add_custom_target(bpf_${name} DEPENDS ${skeleton})
endfunction()
