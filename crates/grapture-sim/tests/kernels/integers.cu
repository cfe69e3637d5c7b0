// Whole numbers.
extern "C" __global__ void whole(const unsigned *in, unsigned *out)
{
    unsigned t = threadIdx.x, a = in[t], b = in[t + 64], c = in[t + 128];
    int x = (int)a, y = (int)b;
    unsigned *r = out + 48 * t, n = 0;
    r[n++] = __mulhi(x, y);
    r[n++] = __umulhi(a, b);
    r[n++] = __mul24(x, y);
    r[n++] = __umul24(a, b);
    r[n++] = __sad(x, y, c);
    r[n++] = __usad(a, b, c);
    r[n++] = __hadd(x, y);
    r[n++] = __rhadd(x, y);
    r[n++] = __uhadd(a, b);
    r[n++] = __brev(a);
    r[n++] = __clz(x) + 100 * __ffs(x) + 10000 * __popc(a);
    r[n++] = __byte_perm(a, b, c & 0x7777);
    r[n++] = __byte_perm(a, b, 0x9c3f);
    r[n++] = __funnelshift_l(a, b, c);
    r[n++] = __funnelshift_r(a, b, c);
    r[n++] = __funnelshift_lc(a, b, c % 50);
    r[n++] = __funnelshift_rc(a, b, c % 50);
    r[n++] = __dp4a(x, y, (int)c);
    r[n++] = __dp4a(a, b, c);
    r[n++] = __dp2a_lo(x, y, (int)c);
    r[n++] = __dp2a_hi(a, b, c);
    r[n++] = __fns(a, c % 32, 2) ^ __fns(a, 5, -3);
    r[n++] = (a & b) | (~c & a) ^ (b & ~a);
    r[n++] = (a ^ b) & c | ~(a | c);
    r[n++] = a / (b | 1) + a % (c | 1);
    r[n++] = x / (y | 1) + x % ((int)c | 1);
    r[n++] = x >> (b % 40) ^ a << (c % 32);
    r[n++] = min(x, y) + max(x, (int)c) + min(a, b) + max(b, c);
    r[n++] = abs(x) - abs(y);
    r[n++] = __vadd4(a, b) ^ __vsub2(b, c);
    r[n++] = __vabsdiffu4(a, b) ^ __vabsdiffs2(a, c);
    r[n++] = __vmaxs4(a, b) ^ __vminu2(b, c);
    r[n++] = __vcmpgtu4(a, b) ^ __vcmpeq2(b, b) ^ __vcmples4(a, c);
    r[n++] = __vsadu4(a, b) + __vsads2(a, c);
    r[n++] = __vavgu4(a, b) ^ __vavgs2(b, c);
    r[n++] = __vaddss4(a, b) ^ __vsubus2(b, c) ^ __vnegss2(c);
    r[n++] = __vseteq4(a, b) + __vsetgtu2(b, c);
    r[n++] = __viaddmax_s32(x, y, c) ^ __viaddmin_s32_relu(x, y, c);
}

extern "C" __global__ void wide(const unsigned long long *in, unsigned long long *out)
{
    unsigned t = threadIdx.x, n = 0;
    unsigned long long a = in[t], b = in[t + 64], *r = out + 20 * t;
    long long x = (long long)a, y = (long long)b;
    r[n++] = __mul64hi(x, y);
    r[n++] = __umul64hi(a, b);
    r[n++] = (unsigned long long)((unsigned)a) * (unsigned)b + a;
    r[n++] = (unsigned long long)((long long)(int)a * (int)b + y);
    r[n++] = a / (b >> 9 | 1) + a % (b >> 31 | 1);
    r[n++] = x / (y >> 9 | 1) + x % (y >> 31 | 1);
    r[n++] = __brevll(a) ^ __clzll(x) ^ __ffsll(y) ^ __popcll(b);
    r[n++] = x >> (b % 64) ^ a << (b % 64) ^ a >> (b % 61);
    unsigned __int128 p = (unsigned __int128)a * b + a;
    __int128 q = (__int128)x * y - y;
    unsigned __int128 s = p + (unsigned __int128)q - ((unsigned __int128)b << 77);
    r[n++] = (unsigned long long)p;
    r[n++] = (unsigned long long)(p >> 64);
    r[n++] = (unsigned long long)(s >> 40);
    r[n++] = (unsigned long long)(s >> 99) + (unsigned long long)(q < 0);
    r[n++] = min(x, y) ^ max(a, b);
    unsigned lo, hi, m0, m1;
    asm("add.cc.u32 %0, %4, %5; addc.cc.u32 %1, %6, %7; addc.u32 %2, 5, %6; mov.u32 %3, 0;"
        : "=r"(lo), "=r"(hi), "=r"(m0), "=r"(m1)
        : "r"((unsigned)a), "r"((unsigned)b), "r"((unsigned)(a >> 32)), "r"((unsigned)(b >> 32)));
    r[n++] = lo ^ (unsigned long long)hi << 32 ^ m0;
    asm("sub.cc.u32 %0, %4, %5; subc.cc.u32 %1, %6, %7; subc.u32 %2, 5, %6; mov.u32 %3, 0;"
        : "=r"(lo), "=r"(hi), "=r"(m0), "=r"(m1)
        : "r"((unsigned)a), "r"((unsigned)b), "r"((unsigned)(a >> 32)), "r"((unsigned)(b >> 32)));
    r[n++] = lo ^ (unsigned long long)hi << 32 ^ m0;
    asm("mad.lo.cc.u32 %0, %4, %5, %6; madc.hi.cc.u32 %1, %4, %5, %7; addc.u32 %2, 0, 0; mov.u32 %3, 0;"
        : "=r"(lo), "=r"(hi), "=r"(m0), "=r"(m1)
        : "r"((unsigned)a), "r"((unsigned)b), "r"((unsigned)(a >> 32)), "r"((unsigned)(b >> 32)));
    r[n++] = lo ^ (unsigned long long)hi << 32 ^ m0;
    unsigned long long w;
    asm("add.cc.u64 %0, %2, %3; addc.u64 %1, %2, 7;" : "=l"(w), "=l"(r[n]) : "l"(a), "l"(b));
    n++;
    r[n++] = w;
    asm("bfe.u64 %0, %1, %2, 17;" : "=l"(w) : "l"(a), "r"((unsigned)b & 63));
    r[n++] = w;
    asm("bfi.b64 %0, %1, %2, %3, 13;" : "=l"(w) : "l"(a), "l"(b), "r"((unsigned)a & 63));
    r[n++] = w;
}

extern "C" __global__ void short_ones(const unsigned *in, unsigned *out)
{
    unsigned t = threadIdx.x, a = in[t], b = in[t + 64], v;
    unsigned *r = out + 12 * t, n = 0;
    asm("bfe.s32 %0, %1, %2, 9;" : "=r"(v) : "r"(a), "r"(b & 31));
    r[n++] = v;
    asm("bfi.b32 %0, %1, %2, %3, 7;" : "=r"(v) : "r"(a), "r"(b), "r"(a & 31));
    r[n++] = v;
    asm("bfind.u32 %0, %1;" : "=r"(v) : "r"(a));
    r[n++] = v;
    asm("bfind.shiftamt.s32 %0, %1;" : "=r"(v) : "r"(a));
    r[n++] = v;
    asm("szext.wrap.s32 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b & 31));
    r[n++] = v;
    asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(v) : "r"(a & 31), "r"(b & 63));
    r[n++] = v;
    asm("add.sat.s32 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    r[n++] = v;
    asm("sub.sat.s32 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    r[n++] = v;
    asm("mad.hi.sat.s32 %0, %1, %2, %1;" : "=r"(v) : "r"(a), "r"(b));
    r[n++] = v;
    asm("prmt.b32.f4e %0, %1, %2, 3;" : "=r"(v) : "r"(a), "r"(b));
    r[n++] = v;
    asm("cnot.b32 %0, %1;" : "=r"(v) : "r"(a & 1));
    r[n++] = v;
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %1;" : "=r"(v) : "r"(a), "r"(b));
    r[n++] = v;
}
