// Says for which device it was compiled, so that a test sees which part of a fat binary was taken.
extern "C" __global__ void compiled_for(int *out)
{
    *out = __CUDA_ARCH__;
}
