// What kernels print and claim.
#include <cassert>
#include <cstdio>

extern "C" __global__ void formats(int x, int *counts)
{
    int n = 0;
    counts[n++] = printf("plain\n");
    counts[n++] = printf("%d|%5d|%-5d|%05d|%+d|%x|%#X|%o|%u|%c|%%\n", x, x, x, x, x, x, x, x, x, 'a' + x);
    counts[n++] = printf("%s|%10s|%-10s|%.2s|%p\n", "as it is", "right", "left", "cut", (void *)0x1234);
    counts[n++] = printf("%f %e %g %G %.3f %10.2e|%-12g|\n", 1.5 * x, 1.5 * x, 1.5e10 * x, 1e-7 * x, 2.0 / 3, 12345.678, 0.5);
    counts[n++] = printf("%a %A\n", 1.5 * x, 0.1);
    counts[n++] = printf("%lld %ld %llu %hd %llx\n", (long long)x << 40, (long)-x, ~0ull, (short)70000, 1ull << 60);
    counts[n++] = printf("%*d|%.*f\n", 7, x, 2, 3.14159);
    counts[n++] = printf("%f %f %f\n", 1.0 / 0.0 * x, -1.0 / 0.0 * x, 0.0 / 0.0);
}

extern "C" __global__ void ranks(void)
{
    if (threadIdx.x % 2)
        printf("%d\n", threadIdx.x);
}

extern "C" __global__ void claims(void)
{
    assert(threadIdx.x < 3 && "a message");
}
