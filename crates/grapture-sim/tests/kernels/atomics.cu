// Every atomic operation. Only what does not depend on the order of the threads is written down.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T> __device__ void arithmetic(T *at, T v)
{
    atomicAdd(at, v);
    atomicMin(at + 1, v);
    atomicMax(at + 2, v);
}

template <typename T> __device__ void bits(T *at, T v)
{
    atomicAnd(at, v | (T)0xf0f0);
    atomicOr(at + 1, v & (T)0xffff);
    atomicXor(at + 2, v);
}

extern "C" __global__ void atomic_integers(const int *in, int *i, unsigned *u, long long *s,
                                           unsigned long long *l)
{
    int v = in[blockIdx.x * blockDim.x + threadIdx.x];
    arithmetic(i, v);
    atomicSub(i + 3, v);
    bits(i + 4, v);
    arithmetic(u, (unsigned)v);
    atomicSub(u + 3, (unsigned)v);
    bits(u + 4, (unsigned)v);
    atomicInc(u + 7, 17);
    atomicDec(u + 8, 23);
    arithmetic(l, (unsigned long long)v << 20);
    bits(l + 3, (unsigned long long)v << 13);
    atomicMin(s, (long long)v << 30);
    atomicMax(s + 1, (long long)v << 30);
    atomicAnd_block(u + 9, v | 0xff);
    atomicAdd_system(i + 7, 1);
    unsigned old = *(volatile unsigned *)(u + 10), seen;
    do {
        seen = old;
        old = atomicCAS(u + 10, seen, seen * 1 + (v & 7));
    } while (old != seen);
    unsigned long long wide = *(volatile unsigned long long *)(l + 6), known;
    do {
        known = wide;
        wide = atomicCAS(l + 6, known, known + ((unsigned long long)v & 7) * 0x100000001ull);
    } while (wide != known);
    int gave = atomicExch(i + 8, -77);
    if (gave != -77)
        atomicAdd(i + 9, gave);
    float given = atomicExch((float *)(i + 10), 2.5f);
    if (given == 0.0f)
        atomicAdd(i + 11, 1);
}

extern "C" __global__ void atomic_numbers(const int *in, float *f, double *d, __half *h, __half2 *h2,
                                          __nv_bfloat16 *b, __nv_bfloat162 *b2, unsigned short *c)
{
    int v = in[blockIdx.x * blockDim.x + threadIdx.x] & 3;
    atomicAdd(f, v * 0.5f);
    atomicAdd(d, v * 0.25);
    atomicAdd(h, __float2half(v));
    atomicAdd(h2, __floats2half2_rn(v, 1));
    atomicAdd(b, __float2bfloat16(v & 1));
    atomicAdd(b2, __floats2bfloat162_rn(v & 1, 1));
    unsigned short old = *(volatile unsigned short *)c, seen;
    do {
        seen = old;
        old = atomicCAS(c, seen, (unsigned short)(seen + v));
    } while (old != seen);
}

extern "C" __global__ void atomic_shared(const int *in, int *out, float *sums)
{
    __shared__ int i[8];
    __shared__ unsigned long long l[2];
    __shared__ float f;
    __shared__ double d;
    __shared__ __half2 h;
    int t = threadIdx.x, v = in[blockIdx.x * blockDim.x + t];
    if (t < 8)
        i[t] = 0;
    if (t < 2)
        l[t] = 0;
    if (t == 0) {
        f = 0, d = 0;
        h = __floats2half2_rn(0, 0);
    }
    __syncthreads();
    atomicAdd(i, v);
    atomicMin(i + 1, v);
    atomicMax(i + 2, v);
    atomicOr(i + 3, v);
    atomicXor(i + 4, v);
    atomicInc((unsigned *)i + 5, 40);
    int place = atomicAdd(i + 6, 1);
    atomicAdd(i + 7, place);
    atomicAdd(l, (unsigned long long)v);
    atomicMax(l + 1, (unsigned long long)(unsigned)v << 7);
    atomicAdd(&f, (v & 7) * 0.5f);
    atomicAdd(&d, (v & 7) * 0.5);
    atomicAdd(&h, __floats2half2_rn(v & 1, 1));
    __syncthreads();
    if (t < 8)
        out[12 * blockIdx.x + t] = i[t];
    if (t < 4)
        out[12 * blockIdx.x + 8 + t] = ((int *)l)[t];
    if (t == 0) {
        sums[4 * blockIdx.x] = f;
        sums[4 * blockIdx.x + 1] = (float)d;
        sums[4 * blockIdx.x + 2] = __low2float(h);
        sums[4 * blockIdx.x + 3] = __high2float(h);
    }
}
