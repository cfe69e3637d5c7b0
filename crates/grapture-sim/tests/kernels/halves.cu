// Half precision and bf16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ unsigned short bits(__half h) { return __half_as_ushort(h); }
__device__ unsigned short bits(__nv_bfloat16 h) { return __bfloat16_as_ushort(h); }

extern "C" __global__ void halves(const __half *in, unsigned short *out)
{
    unsigned t = threadIdx.x, n = 0;
    __half a = in[t], b = in[t + 64], c = in[t + 128];
    unsigned short *r = out + 40 * t;
    r[n++] = bits(__hadd(a, b));
    r[n++] = bits(__hsub(a, b));
    r[n++] = bits(__hmul(a, b));
    r[n++] = bits(__hadd_rn(a, b));
    r[n++] = bits(__hmul_rn(a, b));
    r[n++] = bits(__hadd_sat(a, b));
    r[n++] = bits(__hsub_sat(a, b));
    r[n++] = bits(__hmul_sat(a, b));
    r[n++] = bits(__hfma(a, b, c));
    r[n++] = bits(__hfma_sat(a, b, c));
    r[n++] = bits(__hfma_relu(a, b, c));
    r[n++] = bits(__hneg(a));
    r[n++] = bits(__habs(a));
    r[n++] = bits(__hmax(a, b));
    r[n++] = bits(__hmin(a, b));
    r[n++] = bits(__hmax_nan(a, b));
    r[n++] = bits(__hmin_nan(a, b));
    r[n++] = bits(__hdiv(a, b));
    r[n++] = bits(a * b + c);
    r[n++] = bits(hfloor(a)) ^ bits(hceil(b));
    r[n++] = bits(hrint(a)) ^ bits(htrunc(c));
    r[n++] = bits(hsqrt(__habs(a)));
    r[n++] = bits(hrcp(a));
    r[n++] = __heq(a, b) + 2 * __hlt(a, b) + 4 * __hle(a, b) + 8 * __hgtu(a, b) + 16 * __hneu(a, b) +
             32 * __hisnan(a) + 64 * __hisinf(b);
    __half2 p = __halves2half2(a, b), q = __halves2half2(c, a), s = __hfma2(p, q, q);
    r[n++] = bits(__low2half(s));
    r[n++] = bits(__high2half(s));
    s = __heq2(p, q);
    r[n++] = bits(__low2half(s)) ^ bits(__high2half(__hgt2(p, q)));
    r[n++] = __hbeq2(p, p) + 2 * __hblt2(p, q) + 4 * (__hle2_mask(p, q) >> 8 & 0xff);
    s = __hmax2(p, q);
    r[n++] = bits(__low2half(s)) ^ bits(__high2half(__hmin2_nan(p, q)));
    s = __hadd2_sat(p, q);
    r[n++] = bits(__low2half(s)) ^ bits(__high2half(__hmul2_sat(p, q)));
    r[n++] = bits(__hcmadd(p, q, p).x);
    r[n++] = bits(__float2half_rz(__half2float(a) * 1.37f));
    r[n++] = bits(__float2half_ru(__half2float(a) * 1.37f)) ^ bits(__float2half_rd(__half2float(b) * 0.77f));
    r[n++] = bits(__double2half(__half2float(a) * 1.0000001));
    r[n++] = (unsigned short)__half2int_rz(a) ^ (unsigned short)__half2uint_rn(b) ^ (unsigned short)__half2ll_ru(c);
    r[n++] = (unsigned short)__half2short_rd(a) ^ (unsigned short)__half2char_rz(b);
    r[n++] = bits(__int2half_rn((int)t * 4099 - 70000)) ^ bits(__uint2half_rz(t * 333));
    r[n++] = bits(__ll2half_ru((long long)t * 77 - 2000)) ^ bits(__short2half_rd((short)(t * 777)));
    r[n++] = bits(__low2half(__float22half2_rn(make_float2(__half2float(b) * 3, 1.0f))));
    unsigned short v;
    asm("fma.rn.ftz.f16 %0, %1, %2, %3;" : "=h"(v) : "h"(bits(a)), "h"(bits(b)), "h"(bits(c)));
    r[n++] = v;
}

extern "C" __global__ void brains(const __nv_bfloat16 *in, unsigned short *out)
{
    unsigned t = threadIdx.x, n = 0;
    __nv_bfloat16 a = in[t], b = in[t + 64], c = in[t + 128];
    unsigned short *r = out + 24 * t;
    r[n++] = bits(__hadd(a, b));
    r[n++] = bits(__hsub(a, b));
    r[n++] = bits(__hmul(a, b));
    r[n++] = bits(__hadd_sat(a, b));
    r[n++] = bits(__hfma(a, b, c));
    r[n++] = bits(__hfma_sat(a, b, c));
    r[n++] = bits(__hfma_relu(a, b, c));
    r[n++] = bits(__hneg(a));
    r[n++] = bits(__habs(a));
    r[n++] = bits(__hmax(a, b));
    r[n++] = bits(__hmin_nan(a, b));
    r[n++] = bits(__hdiv(a, b));
    r[n++] = bits(a * b + c);
    r[n++] = bits(hfloor(a)) ^ bits(hrint(b));
    r[n++] = __heq(a, b) + 2 * __hlt(a, b) + 4 * __hge(a, b) + 8 * __hisnan(c);
    __nv_bfloat162 p = __halves2bfloat162(a, b), q = __halves2bfloat162(c, a), s = __hfma2(p, q, q);
    r[n++] = bits(__low2bfloat16(s));
    r[n++] = bits(__high2bfloat16(s));
    s = __hmax2(p, q);
    r[n++] = bits(__low2bfloat16(s)) ^ bits(__high2bfloat16(__hmin2_nan(p, q)));
    r[n++] = bits(__float2bfloat16_rz(__bfloat162float(a) * 1.37f));
    r[n++] = bits(__float2bfloat16_ru(__bfloat162float(a) * 1.37f));
    r[n++] = bits(__double2bfloat16(__bfloat162float(a) * 1.01));
    r[n++] = (unsigned short)__bfloat162int_rn(a) ^ (unsigned short)__bfloat162uint_rz(b);
    r[n++] = bits(__int2bfloat16_rn((int)t * 4099 - 70000)) ^ bits(__ull2bfloat16_rn(t * 0x123456789ull));
    r[n++] = bits(__low2bfloat16(__float22bfloat162_rn(make_float2(__bfloat162float(b) * 3, 1.0f))));
}

extern "C" __global__ void approximations(const __half *in, const __nv_bfloat16 *brains, __half *out,
                                          __nv_bfloat16 *outs)
{
    unsigned t = threadIdx.x, n = 0;
    __half a = in[t], *r = out + 8 * t;
    r[n++] = hexp(a);
    r[n++] = hexp2(a);
    r[n++] = hlog(__habs(a));
    r[n++] = hlog2(__habs(a));
    r[n++] = hsin(a);
    r[n++] = hcos(a);
    r[n++] = hrsqrt(__habs(a));
    r[n++] = htanh_approx(a);
    __nv_bfloat16 b = brains[t], *s = outs + 5 * t;
    s[0] = hexp(b);
    s[1] = hlog(__habs(b));
    s[2] = hsqrt(__habs(b));
    s[3] = htanh_approx(b);
    s[4] = hexp2(b);
}
