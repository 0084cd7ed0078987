// speedscope's page takes a profile from a function of its own only if its address names a file beside it.
location.hash = "localProfilePath=/dev/null";
