# pye_text(MODULE FILE NAME): a header "MODULE/NAME.h" that holds a text file as a C string.
function(pye_text module file name)
  file(READ ${file} text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n\t\"" text "${text}")
  get_filename_component(short ${file} NAME)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${module}/${name}.h @ONLY
       CONTENT "/* Made from @short@. */\nstatic const char @name@[] =\n\t\"@text@\";\n")
  target_include_directories(pye_${module} PRIVATE ${CMAKE_BINARY_DIR}/generated)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
endfunction()
