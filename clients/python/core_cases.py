"""Streams, events, memory and graphs through the package `cuda.core`."""

import ctypes

import numpy
from cuda.core import (
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ObjectCode,
    Program,
    ProgramOptions,
    StreamOptions,
    launch,
)
from cuda.core.graph import GraphCompleteOptions, GraphDebugPrintOptions, GraphDefinition

from harness import case, main
from kernels import PTX, SOURCE

ONE = LaunchConfig(grid=1, block=1)


def setup():
    device = Device(0)
    device.set_current()
    return device, device.create_stream()


def kernel(name):
    return ObjectCode.from_ptx(PTX).get_kernel(name)


def words(count, stream):
    """Pinned memory, which the host and the device see at one address."""
    buffer = LegacyPinnedMemoryResource().allocate(4 * count, stream=stream)
    array = numpy.ctypeslib.as_array((ctypes.c_uint32 * count).from_address(int(buffer.handle)))
    array[:] = 0
    return buffer, array


def u32(value):
    return numpy.uint32(value)


@case
def a_device_describes_itself():
    device, _ = setup()
    assert device.name and len(device.uuid) > 16
    assert device.compute_capability >= (5, 0)
    properties = device.properties
    assert properties.warp_size == 32 and properties.multiprocessor_count > 0
    for name in dir(properties):
        if not name.startswith("_"):
            getattr(properties, name)
    assert len(Device.get_all_devices()) >= 1


@case
def a_device_is_found_on_the_bus():
    device, _ = setup()
    assert ":" in device.pci_bus_id


@case
def a_kernel_is_launched():
    _, stream = setup()
    buffer, array = words(1, stream)
    launch(stream, ONE, kernel("add"), buffer, u32(42))
    stream.sync()
    assert array[0] == 42


@case
def a_kernel_describes_itself():
    setup()
    add = kernel("add")
    assert add.num_arguments == 2
    assert [(info.offset, info.size) for info in add.arguments_info] == [(0, 8), (8, 4)]
    assert add.attributes.max_threads_per_block == 1024
    for name in dir(add.attributes):
        if not name.startswith("_"):
            getattr(add.attributes, name)
    assert add.occupancy.max_active_blocks_per_multiprocessor(128, 0) > 0


@case
def streams_and_events_order_work():
    device, stream = setup()
    other = device.create_stream(options=StreamOptions(nonblocking=True, priority=-1))
    buffer, array = words(1, stream)
    mul_add = kernel("mul_add")
    launch(stream, ONE, mul_add, buffer, u32(0), u32(3))
    event = stream.record()
    other.wait(event)
    launch(other, ONE, mul_add, buffer, u32(10), u32(1))
    stream.wait(other)
    launch(stream, ONE, mul_add, buffer, u32(2), u32(0))
    stream.sync()
    assert array[0] == 62 and event.is_done
    assert other.priority == -1 and other.is_nonblocking


@case
def events_measure_time():
    device, stream = setup()
    timed = EventOptions(timing_enabled=True)
    begin, end = device.create_event(options=timed), device.create_event(options=timed)
    stream.record(begin)
    launch(stream, ONE, kernel("nothing"))
    stream.record(end)
    end.sync()
    assert end - begin >= 0


@case
def buffers_are_filled_and_copied():
    device, stream = setup()
    source, target = device.allocate(64, stream=stream), device.allocate(64, stream=stream)
    source.fill(7, stream=stream)
    source.copy_to(target, stream=stream)
    buffer, array = words(16, stream)
    buffer.copy_from(target, stream=stream)
    stream.sync()
    assert (array == 0x07070707).all()
    assert target.size == 64 and target.is_device_accessible
    source.close(stream)
    target.close(stream)


@case
def a_pool_of_the_programs_own_allocates():
    device, stream = setup()
    pool = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(max_size=1 << 20))
    buffer = pool.allocate(1024, stream=stream)
    buffer.fill(1, stream=stream)
    assert pool.attributes.used_mem_current >= 1024
    buffer.close(stream)
    stream.sync()
    pool.close()


@case
def source_is_compiled_to_ptx():
    device, stream = setup()
    arch = "".join(str(part) for part in device.compute_capability)
    options = ProgramOptions(std="c++17", arch=f"sm_{arch}")
    code = Program(SOURCE, code_type="c++", options=options)
    compiled = code.compile("ptx", name_expressions=("fill<int>",))
    buffer, array = words(32, stream)
    launch(stream, LaunchConfig(grid=1, block=32), compiled.get_kernel("fill<int>"), buffer, numpy.int32(9))
    stream.sync()
    assert (array == 9).all()


@case
def a_builder_records_and_replays():
    device, stream = setup()
    buffer, array = words(1, stream)
    add = kernel("add")
    builder = stream.create_graph_builder().begin_building()
    for _ in range(3):
        launch(builder, ONE, add, buffer, u32(2))
    graph = builder.end_building().complete()
    assert array[0] == 0
    for _ in range(4):
        graph.launch(stream)
    stream.sync()
    assert array[0] == 24
    graph.close()
    builder.close()


@case
def a_builder_splits_and_joins():
    device, stream = setup()
    buffer, array = words(3, stream)
    add = kernel("add")
    at = int(buffer.handle)
    builder = device.create_graph_builder().begin_building()
    launch(builder, ONE, add, at, u32(1))
    first, left, right = builder.split(3)
    launch(left, ONE, add, at + 4, u32(2))
    launch(right, ONE, add, at + 8, u32(3))
    joined = type(builder).join(first, left, right)
    launch(joined, ONE, add, at, u32(10))
    graph = joined.end_building().complete()
    graph.upload(stream)
    graph.launch(stream)
    stream.sync()
    assert list(array) == [11, 2, 3]


@case
def a_builder_embeds_another():
    device, stream = setup()
    buffer, array = words(1, stream)
    add = kernel("add")
    child = device.create_graph_builder().begin_building()
    launch(child, ONE, add, buffer, u32(5))
    child.end_building()
    builder = device.create_graph_builder().begin_building()
    launch(builder, ONE, add, buffer, u32(1))
    builder.embed(child)
    graph = builder.end_building().complete()
    graph.launch(stream)
    stream.sync()
    assert array[0] == 6


@case
def a_builder_calls_the_host():
    device, stream = setup()
    seen = []
    builder = device.create_graph_builder().begin_building()
    builder.callback(lambda: seen.append(1))
    graph = builder.end_building().complete()
    graph.launch(stream)
    graph.launch(stream)
    stream.sync()
    assert seen == [1, 1]


@case
def an_executable_takes_over_another_graph():
    device, stream = setup()
    buffer, array = words(1, stream)
    add = kernel("add")

    def built(value):
        builder = device.create_graph_builder().begin_building()
        launch(builder, ONE, add, buffer, u32(value))
        return builder.end_building()

    graph = built(1).complete()
    graph.launch(stream)
    graph.update(built(100))
    graph.launch(stream)
    stream.sync()
    assert array[0] == 101


@case
def a_graph_is_defined_node_by_node():
    _, stream = setup()
    buffer, array = words(4, stream)
    definition = GraphDefinition()
    at = int(buffer.handle)
    fill = definition.memset(at, u32(3), 4)
    add = fill.launch(ONE, kernel("add"), at, u32(4))
    copy = fill.memcpy(at + 12, at, 4)
    definition.join(add, copy)
    assert len(definition.nodes()) == 4 and len(definition.edges()) == 4
    graph = definition.instantiate()
    graph.launch(stream)
    stream.sync()
    assert array[0] == 7 and array[1] == 3


@case
def a_defined_graph_allocates():
    _, stream = setup()
    buffer, array = words(1, stream)
    definition = GraphDefinition()
    memory = definition.allocate(256)
    fill = memory.memset(memory.dptr, u32(8), 4)
    copy = fill.memcpy(int(buffer.handle), memory.dptr, 4)
    copy.deallocate(memory.dptr)
    graph = definition.instantiate(GraphCompleteOptions(auto_free_on_launch=True))
    graph.launch(stream)
    graph.launch(stream)
    stream.sync()
    assert array[0] == 8


@case
def a_defined_graph_records_and_waits():
    device, stream = setup()
    event = device.create_event()
    definition = GraphDefinition()
    recorded = definition.record(event)
    recorded.wait(event)
    seen = []
    recorded.callback(lambda: seen.append(2))
    definition.instantiate().launch(stream)
    stream.sync()
    event.sync()
    assert seen == [2]


@case
def a_defined_graph_embeds_another():
    _, stream = setup()
    buffer, array = words(1, stream)
    child = GraphDefinition()
    child.launch(ONE, kernel("add"), buffer, u32(6))
    definition = GraphDefinition()
    first = definition.embed(child)
    first.embed(child)
    definition.instantiate().launch(stream)
    stream.sync()
    assert array[0] == 12


@case
def a_graph_is_drawn():
    import os
    import tempfile

    setup()
    definition = GraphDefinition()
    definition.launch(ONE, kernel("nothing")).callback(lambda: None)
    path = os.path.join(tempfile.mkdtemp(), "graph.dot")
    definition.debug_dot_print(path, GraphDebugPrintOptions(verbose=True, handles=True))
    with open(path, encoding="utf-8") as text:
        assert "digraph" in text.read()


@case
def a_condition_chooses():
    _, stream = setup()
    buffer, array = words(2, stream)
    add = kernel("add")
    definition = GraphDefinition()
    taken = definition.create_condition(default_value=1)
    branch = definition.if_then(taken)
    branch.then.launch(ONE, add, int(buffer.handle), u32(5))
    skipped = definition.create_condition(default_value=0)
    other = definition.if_then(skipped)
    other.then.launch(ONE, add, int(buffer.handle) + 4, u32(5))
    definition.instantiate().launch(stream)
    stream.sync()
    assert list(array) == [5, 0]


if __name__ == "__main__":
    main()
