// Floating-point numbers: roundings, saturation, conversions.
extern "C" __global__ void singles(const float *in, float *out)
{
    unsigned t = threadIdx.x, n = 0;
    float a = in[t], b = in[t + 64], c = in[t + 128], *r = out + 34 * t;
    r[n++] = __fadd_rn(a, b);
    r[n++] = __fadd_rz(a, b);
    r[n++] = __fadd_ru(a, b);
    r[n++] = __fadd_rd(a, b);
    r[n++] = __fmul_rn(a, b);
    r[n++] = __fmul_rz(a, b);
    r[n++] = __fmul_ru(a, b);
    r[n++] = __fmul_rd(a, b);
    r[n++] = __fmaf_rn(a, b, c);
    r[n++] = __fmaf_rz(a, b, c);
    r[n++] = __fmaf_ru(a, b, c);
    r[n++] = __fmaf_rd(a, b, c);
    r[n++] = __fdiv_rn(a, b);
    r[n++] = __fdiv_rz(a, b);
    r[n++] = __fdiv_ru(a, b);
    r[n++] = __fdiv_rd(a, b);
    r[n++] = __frcp_rn(a);
    r[n++] = __frcp_rz(a);
    r[n++] = __frcp_ru(a);
    r[n++] = __frcp_rd(a);
    r[n++] = __fsqrt_rn(a);
    r[n++] = __fsqrt_rz(a);
    r[n++] = __fsqrt_ru(a);
    r[n++] = __fsqrt_rd(a);
    r[n++] = __saturatef(a * b);
    r[n++] = fminf(a, b) + fmaxf(b, c);
    r[n++] = floorf(a) + ceilf(b) + truncf(c);
    r[n++] = rintf(a) - roundf(b);
    r[n++] = copysignf(a, b) + fabsf(c);
    r[n++] = ldexpf(a, (int)t - 30);
    r[n++] = fmodf(a, b);
    r[n++] = a * b + c - a * c;
    asm("fma.rn.ftz.sat.f32 %0, %1, %2, %3;" : "=f"(r[n]) : "f"(a), "f"(b), "f"(c));
    n++;
    asm("min.ftz.NaN.f32 %0, %1, %2;" : "=f"(r[n]) : "f"(a), "f"(b));
    n++;
}

extern "C" __global__ void doubles(const double *in, double *out)
{
    unsigned t = threadIdx.x, n = 0;
    double a = in[t], b = in[t + 64], c = in[t + 128], *r = out + 27 * t;
    r[n++] = __dadd_rn(a, b);
    r[n++] = __dadd_rz(a, b);
    r[n++] = __dadd_ru(a, b);
    r[n++] = __dadd_rd(a, b);
    r[n++] = __dmul_rn(a, b);
    r[n++] = __dmul_rz(a, b);
    r[n++] = __dmul_ru(a, b);
    r[n++] = __dmul_rd(a, b);
    r[n++] = __fma_rn(a, b, c);
    r[n++] = __fma_rz(a, b, c);
    r[n++] = __fma_ru(a, b, c);
    r[n++] = __fma_rd(a, b, c);
    r[n++] = __ddiv_rn(a, b);
    r[n++] = __ddiv_rz(a, b);
    r[n++] = __ddiv_ru(a, b);
    r[n++] = __ddiv_rd(a, b);
    r[n++] = __drcp_rn(a);
    r[n++] = __dsqrt_rn(a);
    r[n++] = __dsqrt_rz(a);
    r[n++] = __dsqrt_ru(a);
    r[n++] = __dsqrt_rd(a);
    r[n++] = fmin(a, b) + fmax(b, c);
    r[n++] = floor(a) + ceil(b) - trunc(c);
    r[n++] = rint(a) - round(b);
    r[n++] = fmod(a, b);
    r[n++] = a * b + c - a * c;
    r[n++] = copysign(a, b) * fabs(c);
}

extern "C" __global__ void to_integers(const float *in, const double *wide, int *out)
{
    unsigned t = threadIdx.x, n = 0;
    float a = in[t];
    double b = wide[t];
    int *r = out + 24 * t;
    r[n++] = __float2int_rn(a);
    r[n++] = __float2int_rz(a);
    r[n++] = __float2int_ru(a);
    r[n++] = __float2int_rd(a);
    r[n++] = (int)__float2uint_rn(a);
    r[n++] = (int)__float2uint_rz(a);
    r[n++] = __double2int_rn(b);
    r[n++] = __double2int_rd(b);
    r[n++] = (int)__double2uint_ru(b);
    long long w[6] = {__float2ll_rn(a), __float2ll_rd(a), __double2ll_rz(b), (long long)__float2ull_ru(a),
                      (long long)__double2ull_rn(b), __double_as_longlong(b)};
    for (int i = 0; i < 6; i++) {
        r[n++] = (int)w[i];
        r[n++] = (int)(w[i] >> 32);
    }
    short s;
    asm("cvt.rzi.sat.s16.f32 %0, %1;" : "=h"(s) : "f"(a));
    r[n++] = s;
    r[n++] = (signed char)a + (unsigned char)b;
    r[n++] = __double2hiint(b) ^ __double2loint(b);
}

extern "C" __global__ void from_integers(const int *in, const long long *wide, float *out, double *outs)
{
    unsigned t = threadIdx.x, n = 0;
    int a = in[t];
    long long b = wide[t];
    float *r = out + 12 * t;
    r[n++] = __int2float_rn(a);
    r[n++] = __int2float_rz(a);
    r[n++] = __uint2float_ru((unsigned)a);
    r[n++] = __uint2float_rd((unsigned)a);
    r[n++] = __ll2float_rn(b);
    r[n++] = __ll2float_rz(b);
    r[n++] = __ull2float_ru((unsigned long long)b);
    r[n++] = __double2float_rn(b * 1e-3);
    r[n++] = __double2float_rz(b * 1e-3);
    r[n++] = __double2float_ru(b * 1e-3);
    r[n++] = __double2float_rd(b * 1e-3);
    r[n++] = (float)(short)a + (float)(unsigned char)a;
    double *d = outs + 5 * t;
    d[0] = a;
    d[1] = (unsigned)a;
    d[2] = __ll2double_rn(b);
    d[3] = __ll2double_ru(b);
    d[4] = __ull2double_rd((unsigned long long)b);
}

extern "C" __global__ void functions(const float *in, float *out)
{
    unsigned t = threadIdx.x, n = 0;
    float a = in[t], b = fabsf(in[t + 64]) + 0.01f, *r = out + 21 * t;
    r[n++] = sinf(a);
    r[n++] = cosf(a);
    r[n++] = tanf(a);
    r[n++] = expf(a);
    r[n++] = logf(b);
    r[n++] = powf(b, a);
    r[n++] = sqrtf(b);
    r[n++] = rsqrtf(b);
    r[n++] = tanhf(a);
    r[n++] = erff(a);
    r[n++] = atan2f(a, b);
    r[n++] = cbrtf(a);
    r[n++] = log1pf(b);
    r[n++] = expm1f(a);
    r[n++] = 2 + __sinf(a);
    r[n++] = __expf(a);
    r[n++] = __logf(b);
    r[n++] = __fdividef(a, b);
    r[n++] = exp2f(a);
    r[n++] = log2f(b);
    r[n++] = asinf(fminf(b * 0.1f, 1.0f));
}

extern "C" __global__ void functions_of_doubles(const double *in, double *out)
{
    unsigned t = threadIdx.x, n = 0;
    double a = in[t], b = fabs(in[t + 64]) + 0.01, *r = out + 12 * t;
    r[n++] = sin(a);
    r[n++] = cos(a);
    r[n++] = exp(a);
    r[n++] = log(b);
    r[n++] = pow(b, a);
    r[n++] = rsqrt(b);
    r[n++] = tanh(a);
    r[n++] = erf(a);
    r[n++] = atan2(a, b);
    r[n++] = cbrt(a);
    r[n++] = expm1(a);
    r[n++] = lgamma(b);
}
