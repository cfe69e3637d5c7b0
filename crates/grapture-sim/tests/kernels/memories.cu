// The kinds of memory.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>

struct Mixed {
    char c;
    short s;
    int i;
    double d;
    unsigned char bytes[5];
};

__constant__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__constant__ float scale = 1.5f;
__constant__ Mixed mixed = {'x', -2, 77, 0.125, {1, 2, 3, 4, 5}};
__device__ int counted[4] = {10, 20, 30};
__device__ double grid_value = -2.5;
__device__ int *first = &counted[1];
__device__ const char *text = "text";
__device__ long long numbers[2][3] = {{1, -2}, {3, 4, -5}};
__device__ Mixed structure = {'y', 9, -8, 3.5, {9, 8, 7}};

extern "C" __global__ void initial_values(int *out)
{
    int t = threadIdx.x;
    int v = table[t % 8] * 1000 + (int)(scale * t) + counted[t % 4] + first[t % 2];
    v += (int)(grid_value * 2) + text[t % 4] + (int)numbers[t % 2][t % 3];
    v += mixed.c + mixed.s + mixed.i + (int)(mixed.d * 8) + mixed.bytes[t % 5];
    v += structure.c + structure.s + structure.i + (int)structure.d + structure.bytes[t % 5];
    out[t] = v;
    __syncthreads();
    if (t == 0)
        counted[3] += 5;
    __syncthreads();
    out[t] += counted[3];
}

extern __shared__ int dynamic[];

extern "C" __global__ void dynamic_shared(const int *in, int *out, int n)
{
    double *second = (double *)(dynamic + n);
    int t = threadIdx.x;
    dynamic[t] = in[t];
    second[t] = in[t] * 0.5;
    __syncthreads();
    out[t] = dynamic[n - 1 - t] + (int)(second[(t + 3) % n] * 2);
}

extern "C" __global__ void vectors(const uchar4 *b, const short2 *s, const float4 *f, const double2 *d,
                                   const longlong2 *l, float4 *out)
{
    int t = threadIdx.x;
    uchar4 x = b[t];
    short2 y = s[t];
    float4 z = f[t];
    double2 w = d[t];
    longlong2 v = __ldg(l + t);
    float4 r;
    r.x = z.w * 2 + x.x - x.w;
    r.y = z.z + (float)w.y + y.x;
    r.z = (float)(w.x * 4) + y.y + x.y;
    r.w = z.x + x.z + (float)(int)(v.x ^ v.y);
    out[t] = r;
}

extern "C" __global__ void local_arrays(const unsigned *in, unsigned *out)
{
    unsigned ring[16];
    char bytes[16];
    double reals[4];
    for (int i = 0; i < 16; i++) {
        ring[i] = in[threadIdx.x] * (i + 1);
        bytes[i] = (char)(in[threadIdx.x] >> i);
    }
    for (int i = 0; i < 4; i++)
        reals[i] = (int)in[threadIdx.x] * 0.25;
    unsigned at = in[threadIdx.x] % 16, sum = 0;
    for (int i = 0; i < 40; i++) {
        sum += ring[at] + bytes[(at * 7) % 16] + (unsigned)(int)reals[at % 4];
        ring[(at + 5) % 16] ^= sum;
        at = (at * 5 + 3) % 16;
    }
    out[threadIdx.x] = sum;
}

__device__ int through(const int *p) { return *p; }

extern "C" __global__ void generic_addresses(const int *in, int *out)
{
    __shared__ int shared[32];
    int local[4] = {in[0], in[1], in[2], in[3]};
    shared[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const int *choice[4] = {in + threadIdx.x, shared + (threadIdx.x ^ 1), local + threadIdx.x % 4, table};
    for (int i = 0; i < 4; i++) {
        const int *p = choice[(i + threadIdx.x) % 4];
        int spaces = __isShared(p) + 2 * __isGlobal(p) + 4 * __isLocal(p);
        out[4 * threadIdx.x + i] = through(p) * 8 + spaces;
    }
}

extern "C" __global__ void copied_asynchronously(const int4 *in, int4 *out)
{
    __shared__ int4 whole[64];
    __shared__ int2 half[64];
    __shared__ int quarter[64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&whole[t], &in[t], 16, t % 3 == 0 ? 4 : 0);
    __pipeline_memcpy_async(&half[t], (const int2 *)&in[t], 8);
    __pipeline_commit();
    __pipeline_memcpy_async(&quarter[t], (const int *)&in[t] + 3, 4, t % 5 == 0 ? 4 : 0);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __pipeline_wait_prior(0);
    __syncthreads();
    int4 v = whole[63 - t];
    int2 h = half[(t + 1) % 64];
    out[t] = make_int4(v.x + h.x, v.y + h.y, v.z + quarter[t], v.w);
}

extern "C" __global__ void copied_by_a_group(const int *in, int *out)
{
    namespace cg = cooperative_groups;
    __shared__ int part[128];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, part, in, sizeof(int) * 128);
    cg::wait(block);
    out[threadIdx.x] = part[127 - threadIdx.x] - part[threadIdx.x + 64];
}

extern "C" __global__ void narrow(const signed char *c, const unsigned short *s, signed char *out,
                                  unsigned short *outs)
{
    int t = threadIdx.x;
    out[t] = (signed char)(c[t] * c[63 - t] / 3 - (c[t] >> 2));
    outs[t] = (unsigned short)(s[t] * s[t] + (s[t] << 3) - (s[63 - t] % 7));
}
