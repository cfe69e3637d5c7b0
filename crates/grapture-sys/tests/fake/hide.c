/* Hides every CUDA driver of the machine from the dynamic linker (see rtld-audit(7)), so that a test
 * of "no driver" says the same on a machine that has one. */
#include <stddef.h>
#include <string.h>

unsigned la_version(unsigned version) { return version; }

char *la_objsearch(const char *name, void *cookie, unsigned flag) {
    return strstr(name, "libcuda.so") != NULL ? NULL : (char *)name;
}
