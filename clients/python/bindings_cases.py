"""The driver API through the package `cuda-bindings`: streams, events, memory, launches."""

import ctypes

import numpy
from cuda.bindings import driver as cu

from harness import case, main
from kernels import PTX


def ok(answer):
    """The results of a call that succeeded."""
    code, *results = answer
    assert code == cu.CUresult.CUDA_SUCCESS, code
    return results[0] if len(results) == 1 else results


def setup():
    """The primary context of device 0, current, and a stream."""
    ok(cu.cuInit(0))
    device = ok(cu.cuDeviceGet(0))
    context = ok(cu.cuDevicePrimaryCtxRetain(device))
    ok(cu.cuCtxSetCurrent(context))
    return device, ok(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))


def function(name):
    return ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(PTX)), name.encode()))


def upload(array):
    address = ok(cu.cuMemAlloc(array.nbytes))
    ok(cu.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))
    return address


def download(address, count, kind):
    array = numpy.zeros(count, dtype=kind)
    ok(cu.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes))
    return array


def launch_add(kernel, stream, word, value):
    arguments = ((int(word), value), (ctypes.c_void_p, ctypes.c_uint32))
    ok(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, 0))


@case
def version_and_errors_have_names():
    assert ok(cu.cuDriverGetVersion()) >= 9020
    assert ok(cu.cuGetErrorName(cu.CUresult.CUDA_ERROR_INVALID_VALUE)) == b"CUDA_ERROR_INVALID_VALUE"
    assert len(ok(cu.cuGetErrorString(cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY))) > 0
    assert cu.cuDeviceGetCount()[0] == cu.CUresult.CUDA_ERROR_NOT_INITIALIZED


@case
def a_device_describes_itself():
    device, _ = setup()
    assert ok(cu.cuDeviceGetCount()) >= 1
    assert ok(cu.cuDeviceGetName(100, device)).rstrip(b"\0")
    assert ok(cu.cuDeviceTotalMem(device)) > 0
    attribute = cu.CUdevice_attribute
    assert ok(cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE, device)) == 32
    place = ok(cu.cuDeviceGetPCIBusId(32, device))
    assert int(ok(cu.cuDeviceGetByPCIBusId(place))) == int(device)
    assert len(ok(cu.cuDeviceGetUuid(device)).bytes) == 16
    assert ok(cu.cuDeviceComputeCapability(device))[0] >= 5


@case
def every_attribute_of_a_device_answers():
    device, _ = setup()
    for attribute in cu.CUdevice_attribute:
        code, _ = cu.cuDeviceGetAttribute(attribute, device)
        known = (cu.CUresult.CUDA_SUCCESS, cu.CUresult.CUDA_ERROR_INVALID_VALUE)
        assert code in known, attribute


@case
def contexts_are_a_stack():
    device, _ = setup()
    primary = ok(cu.cuCtxGetCurrent())
    own = ok(cu.cuCtxCreate(None, 0, device))
    assert int(ok(cu.cuCtxGetCurrent())) == int(own)
    assert int(ok(cu.cuCtxGetDevice())) == int(device)
    assert ok(cu.cuCtxGetApiVersion(own)) > 3000
    ok(cu.cuCtxSetCacheConfig(cu.CUfunc_cache.CU_FUNC_CACHE_PREFER_L1))
    assert ok(cu.cuCtxGetCacheConfig()) == cu.CUfunc_cache.CU_FUNC_CACHE_PREFER_L1
    ok(cu.cuCtxSynchronize())
    ok(cu.cuCtxDestroy(own))
    assert int(ok(cu.cuCtxGetCurrent())) == int(primary)


@case
def memory_is_copied_and_filled():
    _, stream = setup()
    data = numpy.arange(64, dtype=numpy.uint32)
    first, second = upload(data), ok(cu.cuMemAlloc(data.nbytes))
    ok(cu.cuMemcpyDtoD(second, first, data.nbytes))
    assert (download(second, 64, numpy.uint32) == data).all()
    ok(cu.cuMemsetD32Async(second, 7, 32, stream))
    ok(cu.cuMemsetD16Async(int(second) + 128, 3, 64, stream))
    ok(cu.cuStreamSynchronize(stream))
    expected = [7] * 32 + [3 * 65537] * 32
    assert (download(second, 64, numpy.uint32) == expected).all()
    ok(cu.cuMemsetD8(second, 1, 4))
    ok(cu.cuMemcpy(first, second, 4))
    assert download(first, 1, numpy.uint32)[0] == 0x01010101
    assert ok(cu.cuMemGetAddressRange(int(first) + 8))[1] == data.nbytes
    free, total = ok(cu.cuMemGetInfo())
    assert 0 < free < total
    ok(cu.cuMemFree(first))
    ok(cu.cuMemFree(second))


@case
def a_pitched_copy_moves_a_rectangle():
    setup()
    address, pitch = ok(cu.cuMemAllocPitch(16, 4, 4))
    source = numpy.arange(64, dtype=numpy.uint8)
    copy = cu.CUDA_MEMCPY2D()
    copy.srcMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_HOST
    copy.srcHost, copy.srcPitch = source.ctypes.data, 16
    copy.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.dstDevice, copy.dstPitch = address, pitch
    copy.WidthInBytes, copy.Height = 16, 4
    ok(cu.cuMemcpy2D(copy))
    assert (download(int(address) + pitch, 16, numpy.uint8) == source[16:32]).all()


@case
def host_memory_is_pinned_registered_and_asked():
    setup()
    host = ok(cu.cuMemHostAlloc(4096, cu.CU_MEMHOSTALLOC_PORTABLE))
    assert ok(cu.cuMemHostGetFlags(host)) & cu.CU_MEMHOSTALLOC_DEVICEMAP
    assert int(ok(cu.cuMemHostGetDevicePointer(host, 0))) == int(host)
    ok(cu.cuMemFreeHost(host))
    array = numpy.zeros(8192, dtype=numpy.uint8)
    ok(cu.cuMemHostRegister(array.ctypes.data, array.nbytes, 0))
    ok(cu.cuMemHostUnregister(array.ctypes.data))
    code = cu.cuMemHostUnregister(array.ctypes.data)[0]
    assert code == cu.CUresult.CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED


@case
def pointers_are_described():
    setup()
    address = ok(cu.cuMemAlloc(256))
    attribute = cu.CUpointer_attribute
    kind = ok(cu.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address))
    assert int(kind) == int(cu.CUmemorytype.CU_MEMORYTYPE_DEVICE)
    wanted = [
        attribute.CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED,
    ]
    size, ordinal, managed = ok(cu.cuPointerGetAttributes(len(wanted), wanted, address))
    assert (int(size), int(ordinal), bool(managed)) == (256, 0, False)


@case
def managed_memory_takes_advice():
    device, stream = setup()
    flag = cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL
    address = ok(cu.cuMemAllocManaged(1 << 16, flag))
    location = cu.CUmemLocation()
    location.type, location.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, int(device)
    advice = cu.CUmem_advise.CU_MEM_ADVISE_SET_PREFERRED_LOCATION
    ok(cu.cuMemAdvise(address, 1 << 16, advice, location))
    attribute = cu.CUmem_range_attribute.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION
    assert ok(cu.cuMemRangeGetAttribute(4, attribute, address, 1 << 16)) == int(device)
    ok(cu.cuMemPrefetchAsync(address, 1 << 16, location, 0, stream))
    ctypes.memset(int(address), 5, 4)
    assert download(address, 1, numpy.uint32)[0] == 0x05050505


@case
def a_kernel_runs():
    _, stream = setup()
    word = upload(numpy.array([5], dtype=numpy.uint32))
    launch_add(function("add"), stream, word, 37)
    ok(cu.cuStreamSynchronize(stream))
    assert download(word, 1, numpy.uint32)[0] == 42


@case
def a_kernel_runs_over_arrays():
    _, stream = setup()
    y = upload(numpy.ones(1000, dtype=numpy.float32))
    x = upload(numpy.arange(1000, dtype=numpy.float32))
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_uint32)
    arguments = ((int(y), int(x), 2.0, 1000), kinds)
    ok(cu.cuLaunchKernel(function("axpy"), 4, 1, 1, 256, 1, 1, 0, stream, arguments, 0))
    ok(cu.cuStreamSynchronize(stream))
    assert (download(y, 1000, numpy.float32) == 1 + 2 * numpy.arange(1000)).all()


@case
def a_launch_takes_attributes():
    _, stream = setup()
    word = upload(numpy.zeros(1, dtype=numpy.uint32))
    config = cu.CUlaunchConfig()
    config.gridDimX = config.gridDimY = config.gridDimZ = 1
    config.blockDimX = config.blockDimY = config.blockDimZ = 1
    config.hStream = stream
    attribute = cu.CUlaunchAttribute()
    attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    attribute.value.cooperative = 1
    config.attrs, config.numAttrs = [attribute], 1
    arguments = ((int(word), 9), (ctypes.c_void_p, ctypes.c_uint32))
    ok(cu.cuLaunchKernelEx(config, function("add"), arguments, 0))
    ok(cu.cuStreamSynchronize(stream))
    assert download(word, 1, numpy.uint32)[0] == 9


@case
def a_module_has_functions_and_variables():
    setup()
    module = ok(cu.cuModuleLoadData(PTX))
    address, size = ok(cu.cuModuleGetGlobal(module, b"counter"))
    assert size == 4
    kernel = ok(cu.cuModuleGetFunction(module, b"count"))
    ok(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
    ok(cu.cuCtxSynchronize())
    assert download(address, 1, numpy.uint32)[0] == 1
    assert ok(cu.cuFuncGetName(kernel)) == b"count"
    count = ok(cu.cuModuleGetFunctionCount(module))
    assert len(ok(cu.cuModuleEnumerateFunctions(count, module))) == count
    assert cu.cuModuleGetFunction(module, b"none")[0] == cu.CUresult.CUDA_ERROR_NOT_FOUND
    ok(cu.cuModuleUnload(module))


@case
def a_library_has_kernels():
    setup()
    library = ok(cu.cuLibraryLoadData(PTX, [], [], 0, [], [], 0))
    kernel = ok(cu.cuLibraryGetKernel(library, b"add"))
    assert ok(cu.cuKernelGetName(kernel)) == b"add"
    assert int(ok(cu.cuKernelGetLibrary(kernel))) == int(library)
    assert ok(cu.cuKernelGetParamInfo(kernel, 1)) == [8, 4]
    word = upload(numpy.zeros(1, dtype=numpy.uint32))
    launch_add(ok(cu.cuKernelGetFunction(kernel)), 0, word, 3)
    ok(cu.cuCtxSynchronize())
    assert download(word, 1, numpy.uint32)[0] == 3
    ok(cu.cuLibraryUnload(library))


@case
def occupancy_is_told():
    setup()
    kernel = function("axpy")
    assert ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, 256, 0)) > 0
    grid, block = ok(cu.cuOccupancyMaxPotentialBlockSize(kernel, None, 0, 0))
    assert grid > 0 and block % 32 == 0
    attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    assert ok(cu.cuFuncGetAttribute(attribute, kernel)) == 1024


@case
def events_order_streams_and_measure():
    _, stream = setup()
    other = ok(cu.cuStreamCreateWithPriority(1, -1))
    word = upload(numpy.array([1], dtype=numpy.uint32))
    kernel = function("mul_add")
    begin, end = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
    ok(cu.cuEventRecord(begin, stream))
    kinds = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
    ok(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, ((int(word), 2, 1), kinds), 0))
    ok(cu.cuEventRecord(end, stream))
    ok(cu.cuStreamWaitEvent(other, end, 0))
    ok(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, other, ((int(word), 10, 0), kinds), 0))
    ok(cu.cuStreamSynchronize(other))
    ok(cu.cuEventSynchronize(end))
    ok(cu.cuEventQuery(end))
    assert download(word, 1, numpy.uint32)[0] == 30
    assert ok(cu.cuEventElapsedTime(begin, end)) >= 0
    assert ok(cu.cuStreamGetPriority(other)) == -1
    assert ok(cu.cuStreamGetId(stream)) != ok(cu.cuStreamGetId(other))


@case
def a_host_function_runs_in_order():
    _, stream = setup()
    seen = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(seen.append)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    ok(cu.cuLaunchHostFunc(stream, cu.CUhostFn(_ptr=ctypes.addressof(ctypes.c_void_p(address))), 7))
    ok(cu.cuStreamSynchronize(stream))
    assert seen == [7]


@case
def words_are_waited_for_and_written():
    _, stream = setup()
    words = upload(numpy.zeros(4, dtype=numpy.uint32))
    ok(cu.cuStreamWriteValue32(stream, words, 5, 0))
    equal = cu.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ
    ok(cu.cuStreamWaitValue32(stream, words, 5, equal))
    ok(cu.cuStreamWriteValue64(stream, int(words) + 8, 1 << 40, 0))
    ok(cu.cuStreamSynchronize(stream))
    assert download(int(words) + 8, 1, numpy.uint64)[0] == 1 << 40


@case
def memory_is_allocated_in_order():
    device, stream = setup()
    pool = ok(cu.cuDeviceGetDefaultMemPool(device))
    address = ok(cu.cuMemAllocAsync(1024, stream))
    ok(cu.cuMemsetD8Async(address, 9, 1024, stream))
    ok(cu.cuStreamSynchronize(stream))
    attribute = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    assert int(ok(cu.cuMemPoolGetAttribute(pool, attribute))) >= 1024
    ok(cu.cuMemFreeAsync(address, stream))
    ok(cu.cuStreamSynchronize(stream))
    ok(cu.cuMemPoolTrimTo(pool, 0))


@case
def addresses_of_functions_are_found_by_name():
    ok(cu.cuInit(0))
    address, status = ok(cu.cuGetProcAddress(b"cuGraphLaunch", 12000, 0))
    assert address and status == cu.CUdriverProcAddressQueryResult.CU_GET_PROC_ADDRESS_SUCCESS
    missing = cu.CUdriverProcAddressQueryResult.CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
    assert ok(cu.cuGetProcAddress(b"cuNoSuchThing", 12000, 0))[1] == missing


@case
def profiling_can_be_asked_for():
    setup()
    ok(cu.cuProfilerStart())
    ok(cu.cuProfilerStop())


if __name__ == "__main__":
    main()
