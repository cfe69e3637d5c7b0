/* A CUDA driver for the tests of the loader. It runs nothing: a function answers with a number that
 * tells which ABI of it was called.
 *
 * VERSION      what cuDriverGetVersion says: 1000 * major + 10 * minor
 * INIT         what cuInit answers; 0 if not given
 * LOOKUP       0: there is no cuGetProcAddress; 1: the ABI of 11.3; 2: that of 12.0
 * WITHOUT_X    the function X does not exist
 * NO_INIT      there is no cuInit: this is no driver at all
 */
#include <stddef.h>
#include <string.h>

#ifndef INIT
#define INIT 0
#endif

#ifndef NO_INIT
int cuInit(unsigned flags) { return flags == 0 ? INIT : 1; }
#endif

int cuDriverGetVersion(int *version) {
    *version = VERSION;
    return 0;
}

/* Each takes as many arguments as the ABI does; none looks at them. */
int cuDeviceGetCount(int *count) {
    *count = 0;
    return 0;
}
#ifndef WITHOUT_cuStreamCreate
int cuStreamCreate(void **stream, unsigned flags) { return 2000; }
#endif
#if VERSION >= 10000
int cuStreamBeginCapture(void *stream) { return 10000; }
int cuGraphInstantiate(void **exec, void *graph, void **node, char *log, size_t size) {
    return 10000;
}
#ifndef WITHOUT_cuGraphLaunch
int cuGraphLaunch(void *exec, void *stream) { return 10000; }
#endif
#endif
#if VERSION >= 10010
int cuStreamBeginCapture_v2(void *stream, int mode) { return 10010; }
int cuStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id) { return 10010; }
#endif
#if VERSION >= 11000
int cuGraphInstantiate_v2(void **exec, void *graph, void **node, char *log, size_t size) {
    return 11000;
}
#endif
#if VERSION >= 11030
int cuStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, void **graph,
                              void ***nodes, size_t *count) {
    return 11030;
}
#endif
#if VERSION >= 11040
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    return 11040;
}
#endif
#if VERSION >= 12030
int cuStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, void **graph,
                              void ***nodes, void **edges, size_t *count) {
    return 12030;
}
#endif

#if LOOKUP
/* Every ABI that the lookup knows. Some are not exported under their own name here, so that a test
 * sees whether the lookup was asked. */
static int launch_host_func(void *stream, void *function, void *data) { return 10001; }

static const struct {
    const char *name;
    int since;
    void *function;
} known[] = {
    {"cuInit", 2000, (void *)cuInit},
    {"cuDriverGetVersion", 2020, (void *)cuDriverGetVersion},
    {"cuDeviceGetCount", 2000, (void *)cuDeviceGetCount},
    {"cuLaunchHostFunc", 10000, (void *)launch_host_func},
    {"cuStreamBeginCapture", 10000, (void *)cuStreamBeginCapture},
    {"cuStreamBeginCapture", 10010, (void *)cuStreamBeginCapture_v2},
    {"cuStreamGetCaptureInfo", 10010, (void *)cuStreamGetCaptureInfo},
    {"cuStreamGetCaptureInfo", 11030, (void *)cuStreamGetCaptureInfo_v2},
#if VERSION >= 12030
    {"cuStreamGetCaptureInfo", 12030, (void *)cuStreamGetCaptureInfo_v3},
#endif
    {"cuGraphInstantiate", 10000, (void *)cuGraphInstantiate},
    {"cuGraphInstantiate", 11000, (void *)cuGraphInstantiate_v2},
#if VERSION >= 11040
    {"cuGraphInstantiateWithFlags", 11040, (void *)cuGraphInstantiateWithFlags},
#endif
#ifndef WITHOUT_cuGraphLaunch
    {"cuGraphLaunch", 10000, (void *)cuGraphLaunch},
#endif
#ifndef WITHOUT_cuStreamCreate
    {"cuStreamCreate", 2000, (void *)cuStreamCreate},
#endif
};

/* As drivers do: the newest ABI of the name that is not newer than the version that is asked for,
 * even if that version is newer than the driver. */
static void *newest(const char *name, int version, int *names) {
    void *found = NULL;
    *names = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        *names = 1;
        if (known[i].since <= version) found = known[i].function;
    }
    return found;
}
#endif

#if LOOKUP >= 1
/* The first ABI: a function that is not there is error 500, and the pointer stays as it was. */
int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags) {
    int names;
    void *found = newest(name, version, &names);
    if (found == NULL) return 500;
    *function = found;
    return 0;
}
#endif

#if LOOKUP >= 2
/* The second: it succeeds, gives null and says why in the status. */
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                        int *status) {
    int names;
    *function = newest(name, version, &names);
    if (status != NULL) *status = *function != NULL ? 0 : names ? 2 : 1;
    return 0;
}
#endif
