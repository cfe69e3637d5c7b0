// Functions.
struct Pair {
    int a;
    double b;
};

struct Big {
    int values[9];
};

__device__ __noinline__ unsigned fibonacci(unsigned n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __noinline__ unsigned is_odd(unsigned n);
__device__ __noinline__ unsigned is_even(unsigned n) { return n == 0 ? 1 : is_odd(n - 1); }
__device__ __noinline__ unsigned is_odd(unsigned n) { return n == 0 ? 0 : is_even(n - 1); }

extern "C" __global__ void recursive(const unsigned *in, unsigned *out)
{
    unsigned v = in[threadIdx.x] % 11;
    out[threadIdx.x] = fibonacci(v) * 2 + is_even(v);
}

__device__ __noinline__ Pair swapped(Pair p, char c)
{
    Pair q = {(int)p.b + c, (double)p.a};
    return q;
}

__device__ __noinline__ Big shifted(Big b, int by)
{
    for (int i = 0; i < 9; i++)
        b.values[i] = b.values[i] * 2 + by;
    return b;
}

extern "C" __global__ void by_value(Pair p, Big b, double *out)
{
    Pair q = swapped(p, (char)threadIdx.x);
    Big c = shifted(b, threadIdx.x);
    out[threadIdx.x] = q.a + q.b + c.values[threadIdx.x % 9];
}

typedef int (*Binary)(int, int);
__device__ int plus(int a, int b) { return a + b; }
__device__ int minus(int a, int b) { return a - b; }
__device__ int times(int a, int b) { return a * b; }
__device__ __noinline__ int choose(int a, int b) { return a < b ? a : b; }
__device__ Binary operations[4] = {plus, minus, times, choose};

extern "C" __global__ void by_pointer(const int *in, int *out)
{
    int t = threadIdx.x;
    Binary f = operations[in[t] & 3];
    out[t] = f(in[t], t) + operations[t & 3](t, 3);
}

struct Shape {
    __device__ virtual int area() const = 0;
    __device__ virtual int name() const { return 'a'; }
};
struct Square : Shape {
    int side;
    __device__ Square(int s) : side(s) {}
    __device__ int area() const override { return side * side; }
};
struct Rectangle : Shape {
    int a, b;
    __device__ Rectangle(int x, int y) : a(x), b(y) {}
    __device__ int area() const override { return a * b; }
    __device__ int name() const override { return 'r'; }
};

extern "C" __global__ void by_table(const int *in, int *out)
{
    int t = threadIdx.x;
    Square square(in[t] & 15);
    Rectangle rectangle(in[t] & 7, t);
    const Shape *shape = in[t] & 1 ? (const Shape *)&square : (const Shape *)&rectangle;
    out[t] = shape->area() * 1000 + shape->name();
}

template <typename F> __device__ __noinline__ int twice(F f, int v) { return f(f(v)); }

extern "C" __global__ void by_lambda(const int *in, int *out)
{
    int t = threadIdx.x, bias = in[0] & 255;
    out[t] = twice([=](int v) { return v * 3 + bias; }, in[t]);
}

// More than 64 parameters' worth of bytes.
struct Params {
    int values[200];
};

extern "C" __global__ void many_parameters(Params p, const __grid_constant__ Params q, int *out)
{
    int sum = 0;
    for (int i = threadIdx.x; i < 200; i += 32)
        sum += p.values[i] * q.values[199 - i];
    out[threadIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(64, 2) bounded(int *out)
{
    out[threadIdx.x] = blockDim.x;
}
