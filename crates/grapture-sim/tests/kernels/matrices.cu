// Products of matrices.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <typename T, typename Acc, int M, int N, int K, typename LA, typename LB>
__device__ void product(const T *a, const T *b, const Acc *c, Acc *d)
{
    wmma::fragment<wmma::matrix_a, M, N, K, T, LA> left;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LB> right;
    wmma::fragment<wmma::accumulator, M, N, K, Acc> sum;
    wmma::load_matrix_sync(left, a, 32);
    wmma::load_matrix_sync(right, b, 32);
    wmma::load_matrix_sync(sum, c, 32, wmma::mem_row_major);
    for (int i = 0; i < sum.num_elements; i++)
        sum.x[i] = sum.x[i] + sum.x[i];
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(d, sum, 32, wmma::mem_col_major);
}

extern "C" __global__ void tiles_of_halves(const __half *a, const __half *b, const float *c, float *d,
                                           const __half *ch, __half *dh)
{
    product<__half, float, 16, 16, 16, wmma::row_major, wmma::col_major>(a, b, c, d);
    product<__half, float, 32, 8, 16, wmma::col_major, wmma::row_major>(a, b, c, d + 1024);
    product<__half, float, 8, 32, 16, wmma::row_major, wmma::row_major>(a, b, c, d + 2048);
    product<__half, __half, 16, 16, 16, wmma::row_major, wmma::col_major>(a, b, ch, dh);
}

extern "C" __global__ void tiles_of_brains(const __nv_bfloat16 *a, const __nv_bfloat16 *b, const float *c,
                                           float *d)
{
    product<__nv_bfloat16, float, 16, 16, 16, wmma::row_major, wmma::col_major>(a, b, c, d);
}

extern "C" __global__ void tiles_of_bytes(const signed char *a, const signed char *b, const int *c, int *d)
{
    product<signed char, int, 16, 16, 16, wmma::row_major, wmma::col_major>(a, b, c, d);
    product<unsigned char, int, 16, 16, 16, wmma::col_major, wmma::row_major>(
        (const unsigned char *)a, (const unsigned char *)b, c, d + 1024);
}

extern "C" __global__ void tiles_of_doubles(const double *a, const double *b, const double *c, double *d)
{
    product<double, double, 8, 8, 4, wmma::row_major, wmma::col_major>(a, b, c, d);
}

extern "C" __global__ void tiles_of_tf32(const float *a, const float *b, const float *c, float *d)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::load_matrix_sync(left, a, 32);
    wmma::load_matrix_sync(right, b, 32);
    for (int i = 0; i < left.num_elements; i++)
        left.x[i] = wmma::__float_to_tf32(left.x[i]);
    wmma::load_matrix_sync(sum, c, 32, wmma::mem_row_major);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(d, sum, 32, wmma::mem_row_major);
}

#define LANE (threadIdx.x & 31)

// Every lane's registers are taken from, and put into, memory as they are.
extern "C" __global__ void mma_halves(const unsigned *a, const unsigned *b, const float *c, float *d,
                                      const unsigned *ch, unsigned *dh)
{
    const unsigned *x = a + 4 * LANE, *y = b + 2 * LANE;
    const float *z = c + 4 * LANE;
    float *r = d + 16 * LANE;
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "f"(z[0]), "f"(z[1]), "f"(z[2]), "f"(z[3]));
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=f"(r[4]), "=f"(r[5]), "=f"(r[6]), "=f"(r[7])
        : "r"(x[0]), "r"(x[1]), "r"(y[0]), "f"(z[0]), "f"(z[1]), "f"(z[2]), "f"(z[3]));
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(r[8]), "=f"(r[9]), "=f"(r[10]), "=f"(r[11])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "f"(z[0]), "f"(z[1]), "f"(z[2]), "f"(z[3]));
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=f"(r[12]), "=f"(r[13]), "=f"(r[14]), "=f"(r[15])
        : "r"(x[0]), "r"(x[1]), "r"(y[0]), "f"(z[0]), "f"(z[1]), "f"(z[2]), "f"(z[3]));
    const unsigned *zh = ch + 2 * LANE;
    unsigned *rh = dh + 4 * LANE;
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%9};"
        : "=r"(rh[0]), "=r"(rh[1])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(zh[0]), "r"(zh[1]));
    asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%5,%6};"
        : "=r"(rh[2]), "=r"(rh[3])
        : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(zh[0]), "r"(zh[1]));
}

extern "C" __global__ void mma_tf32(const unsigned *a, const unsigned *b, const float *c, float *d)
{
    const unsigned *x = a + 4 * LANE, *y = b + 2 * LANE;
    const float *z = c + 4 * LANE;
    float *r = d + 8 * LANE;
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "f"(z[0]), "f"(z[1]), "f"(z[2]), "f"(z[3]));
    asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=f"(r[4]), "=f"(r[5]), "=f"(r[6]), "=f"(r[7])
        : "r"(x[0]), "r"(x[1]), "r"(y[0]), "f"(z[0]), "f"(z[1]), "f"(z[2]), "f"(z[3]));
}

extern "C" __global__ void mma_doubles(const double *a, const double *b, const double *c, double *d)
{
    double *r = d + 2 * LANE;
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%4,%5};"
        : "=d"(r[0]), "=d"(r[1])
        : "d"(a[LANE]), "d"(b[LANE]), "d"(c[2 * LANE]), "d"(c[2 * LANE + 1]));
}

#define BYTES(shape, types, ra, rb, more)                                                                    \
    asm("mma.sync.aligned." shape ".row.col" more ".s32." types ".s32 {%0,%1,%2,%3}, " ra ", " rb ", {%10,%11,%12,%13};" \
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                                      \
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(z[0]), "r"(z[1]), "r"(z[2]), "r"(z[3])); \
    r += 4

extern "C" __global__ void mma_integers(const unsigned *a, const unsigned *b, const unsigned *c, unsigned *d)
{
    const unsigned *x = a + 4 * LANE, *y = b + 2 * LANE, *z = c + 4 * LANE;
    unsigned *r = d + 36 * LANE;
    BYTES("m16n8k32", "s8.s8", "{%4,%5,%6,%7}", "{%8,%9}", "");
    BYTES("m16n8k32", "u8.s8", "{%4,%5,%6,%7}", "{%8,%9}", ".satfinite");
    BYTES("m16n8k16", "s8.u8", "{%4,%5}", "{%8}", "");
    BYTES("m16n8k16", "u8.u8", "{%4,%5}", "{%8}", "");
    BYTES("m16n8k64", "s4.s4", "{%4,%5,%6,%7}", "{%8,%9}", "");
    BYTES("m16n8k32", "u4.s4", "{%4,%5}", "{%8}", ".satfinite");
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(z[0]), "r"(z[1]), "r"(z[2]), "r"(z[3]));
    r += 4;
    asm("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(z[0]), "r"(z[1]), "r"(z[2]), "r"(z[3]));
    r += 4;
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%5};"
        : "=r"(r[0]), "=r"(r[1])
        : "r"(x[0]), "r"(y[0]), "r"(z[0]), "r"(z[1]));
    asm("mma.sync.aligned.m8n8k32.row.col.s32.u4.u4.s32 {%0,%1}, {%2}, {%3}, {%4,%5};"
        : "=r"(r[2]), "=r"(r[3])
        : "r"(x[0]), "r"(y[0]), "r"(z[0]), "r"(z[1]));
}

extern "C" __global__ void matrix_loads(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) unsigned part[256];
    unsigned t = threadIdx.x, *r = out + 12 * t;
    for (unsigned i = t; i < 256; i += 32)
        part[i] = in[i];
    __syncwarp();
    unsigned at = (unsigned)__cvta_generic_to_shared(part) + ((t * 5) % 32) * 16;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4+512];"
                 : "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[8]), "=r"(r[9]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[10]) : "r"(at));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r[11]) : "r"(r[0]));
}
