// nvcc -arch=sm_75 -ptx floating.cu -o floating.ptx   (the comment header that nvcc writes is removed)
__device__ float through_half(float x)
{
    unsigned short h;
    float r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
    return r;
}

extern "C" __global__ void rounding32(const float *a, const float *b, const float *c, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i], y = b[i], z = c[i];
    float *o = out + 24 * i;
    o[0] = __fadd_rn(x, y); o[1] = __fadd_rz(x, y); o[2] = __fadd_ru(x, y); o[3] = __fadd_rd(x, y);
    o[4] = __fmul_rn(x, y); o[5] = __fmul_rz(x, y); o[6] = __fmul_ru(x, y); o[7] = __fmul_rd(x, y);
    o[8] = __fmaf_rn(x, y, z); o[9] = __fmaf_rz(x, y, z); o[10] = __fmaf_ru(x, y, z); o[11] = __fmaf_rd(x, y, z);
    o[12] = __fdiv_rn(x, y); o[13] = __fdiv_rz(x, y); o[14] = __fdiv_ru(x, y); o[15] = __fdiv_rd(x, y);
    o[16] = __fsqrt_rn(x); o[17] = __fsqrt_rz(x); o[18] = __fsqrt_ru(x); o[19] = __fsqrt_rd(x);
    o[20] = fminf(x, y); o[21] = fmaxf(x, y); o[22] = fabsf(x); o[23] = __saturatef(x);
}

extern "C" __global__ void rounding64(const double *a, const double *b, const double *c, double *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = a[i], y = b[i], z = c[i];
    double *o = out + 20 * i;
    o[0] = __dadd_rn(x, y); o[1] = __dadd_rz(x, y); o[2] = __dadd_ru(x, y); o[3] = __dadd_rd(x, y);
    o[4] = __dmul_rn(x, y); o[5] = __dmul_rz(x, y); o[6] = __dmul_ru(x, y); o[7] = __dmul_rd(x, y);
    o[8] = __fma_rn(x, y, z); o[9] = __fma_rz(x, y, z); o[10] = __fma_ru(x, y, z); o[11] = __fma_rd(x, y, z);
    o[12] = __ddiv_rn(x, y); o[13] = __ddiv_rz(x, y); o[14] = __ddiv_ru(x, y); o[15] = __ddiv_rd(x, y);
    o[16] = __dsqrt_rn(x); o[17] = __dsqrt_rz(x); o[18] = __dsqrt_ru(x); o[19] = __dsqrt_rd(x);
}

extern "C" __global__ void convert(const float *f, const double *d, int *i32, long long *i64, float *back)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = f[i];
    double y = d[i];
    i32[8 * i + 0] = __float2int_rn(x); i32[8 * i + 1] = __float2int_rz(x);
    i32[8 * i + 2] = __float2int_ru(x); i32[8 * i + 3] = __float2int_rd(x);
    i32[8 * i + 4] = (int)__float2uint_rz(x); i32[8 * i + 5] = __double2int_rz(y);
    i32[8 * i + 6] = (int)(signed char)(int)x; i32[8 * i + 7] = (int)(unsigned short)(int)x;
    i64[3 * i + 0] = __float2ll_rz(x); i64[3 * i + 1] = __double2ll_rn(y); i64[3 * i + 2] = (long long)__double2ull_rz(y);
    back[6 * i + 0] = __double2float_rn(y); back[6 * i + 1] = __double2float_ru(y);
    back[6 * i + 2] = __int2float_rz(i32[8 * i]); back[6 * i + 3] = truncf(x);
    back[6 * i + 4] = through_half(x); back[6 * i + 5] = rintf(x);
}

extern "C" __global__ void math(const float *a, const double *b, float *out, double *out64)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];
    out[6 * i + 0] = sinf(x); out[6 * i + 1] = expf(x); out[6 * i + 2] = logf(fabsf(x) + 1.0f);
    out[6 * i + 3] = powf(fabsf(x), 1.5f); out[6 * i + 4] = rsqrtf(fabsf(x) + 1.0f); out[6 * i + 5] = tanhf(x);
    out64[2 * i + 0] = sin(b[i]); out64[2 * i + 1] = exp(b[i]) / (1.0 + b[i] * b[i]);
}
