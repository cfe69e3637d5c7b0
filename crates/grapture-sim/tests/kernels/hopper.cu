// What devices have from capability 9.0 on.
// nvcc -arch=sm_90
#include <cuda_fp16.h>

extern "C" __global__ void matrix_stores(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) unsigned part[256];
    unsigned t = threadIdx.x;
    unsigned at = (unsigned)__cvta_generic_to_shared(part) + ((t * 3) % 32) * 16;
    const unsigned *v = in + 4 * t;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%4], {%0,%1,%2,%3};"
                 :: "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(at) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%4+512], {%0,%1,%2,%3};"
                 :: "r"(v[3]), "r"(v[2]), "r"(v[1]), "r"(v[0]), "r"(at) : "memory");
    __syncwarp();
    for (unsigned i = t; i < 256; i += 32)
        out[i] = part[i];
}

extern "C" __global__ void dependent(const unsigned *in, unsigned *out)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
    out[threadIdx.x] = in[threadIdx.x] + 1;
    asm volatile("griddepcontrol.launch_dependents;");
}

extern "C" __global__ void atomic_vectors(float *f, const int *in, unsigned *out)
{
    int v = in[threadIdx.x] & 3;
    float2 two = atomicAdd((float2 *)f, make_float2(v, 1));
    atomicAdd((float4 *)(f + 4), make_float4(1, 2, v, 0.5f));
    out[threadIdx.x] = two.x >= 0 && two.y >= 0;
}

extern "C" __global__ void mma_large_doubles(const double *a, const double *b, const double *c, double *d)
{
    unsigned t = threadIdx.x;
    double *r = d + 12 * t;
    const double *x = a + 8 * t, *y = b + 4 * t, *z = c + 4 * t;
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=d"(r[0]), "=d"(r[1]), "=d"(r[2]), "=d"(r[3])
        : "d"(x[0]), "d"(x[1]), "d"(y[0]), "d"(z[0]), "d"(z[1]), "d"(z[2]), "d"(z[3]));
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=d"(r[4]), "=d"(r[5]), "=d"(r[6]), "=d"(r[7])
        : "d"(x[0]), "d"(x[1]), "d"(x[2]), "d"(x[3]), "d"(y[0]), "d"(y[1]), "d"(z[0]), "d"(z[1]), "d"(z[2]), "d"(z[3]));
    asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%16,%17,%18,%19};"
        : "=d"(r[8]), "=d"(r[9]), "=d"(r[10]), "=d"(r[11])
        : "d"(x[0]), "d"(x[1]), "d"(x[2]), "d"(x[3]), "d"(x[4]), "d"(x[5]), "d"(x[6]), "d"(x[7]), "d"(y[0]), "d"(y[1]),
          "d"(y[2]), "d"(y[3]), "d"(z[0]), "d"(z[1]), "d"(z[2]), "d"(z[3]));
}
