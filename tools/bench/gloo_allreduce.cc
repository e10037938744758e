/* All-reduce of Gloo, to compare with: gloo_allreduce RANK SIZE ADDRESS STORE ALGORITHM PLAN
 * BUDGET_S */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include "driver.h"

namespace
{

/* A blocking pair saves the way through Gloo's event thread, but both ends would wait for each
 * other for ever once a message does not fit into the sockets' buffers. */
constexpr size_t kBlockingBytes = 64 * 1024;

using Context = std::shared_ptr<gloo::Context>;
using Options = gloo::AllreduceOptions;

struct GlooDriver {
	struct driver base;
	std::string algorithm;
	Context events;   /* pairs served by Gloo's event thread */
	Context blocking; /* pairs that block their caller */
	std::unique_ptr<gloo::Algorithm> object;
	std::function<void()> run;
};

GlooDriver *self(struct driver *driver)
{
	return reinterpret_cast<GlooDriver *>(driver);
}

/* The newer interface, which works on event pairs only. */
std::function<void()> by_options(
	const Context &context, Options::Algorithm algorithm, float *data, size_t count)
{
	auto options = std::make_shared<Options>(context);

	options->setAlgorithm(algorithm);
	options->setOutput(data, count);
	options->setReduceFunction(
		static_cast<void (*)(void *, const void *, const void *, size_t)>(
			&gloo::sum<float>));
	return [options] { gloo::allreduce(*options); };
}

/* The older interface: objects, on either kind of pair. */
std::unique_ptr<gloo::Algorithm> make_object(
	const std::string &name, const Context &context, float *data, int count)
{
	std::vector<float *> pointers{data};

	if (name == "ring_chunked") {
		return std::make_unique<gloo::AllreduceRingChunked<float>>(
			context, pointers, count);
	}
	if (name == "halving_doubling") {
		return std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
			context, pointers, count);
	}
	if (name == "bcube") {
		return std::make_unique<gloo::AllreduceBcube<float>>(context, pointers, count);
	}
	throw std::invalid_argument("algorithm: must be new_ring, new_bcube, ring_chunked, "
				    "halving_doubling or bcube, got " +
				    name);
}

void begin(struct driver *driver, float *data, size_t count)
{
	GlooDriver *gloo = self(driver);

	if (gloo->algorithm == "new_ring") {
		gloo->run = by_options(gloo->events, Options::Algorithm::RING, data, count);
	} else if (gloo->algorithm == "new_bcube") {
		gloo->run = by_options(gloo->events, Options::Algorithm::BCUBE, data, count);
	} else {
		bool blocks = count * sizeof(float) <= kBlockingBytes;

		gloo->object = make_object(gloo->algorithm, blocks ? gloo->blocking : gloo->events,
			data, static_cast<int>(count));
		gloo->run = [gloo] { gloo->object->run(); };
	}
}

void allreduce(struct driver *driver)
{
	self(driver)->run();
}

void end(struct driver *driver)
{
	self(driver)->run = nullptr;
	self(driver)->object.reset();
}

double max(struct driver *driver, double value)
{
	Options options(self(driver)->events);

	options.setOutput(&value, 1);
	options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(
		&gloo::max<double>));
	gloo::allreduce(options);
	return value;
}

Context connect(
	int rank, int size, const char *address, gloo::rendezvous::Store &store, bool blocks)
{
	gloo::transport::tcp::attr attr(address);
	std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
	gloo::rendezvous::PrefixStore part(blocks ? "blocking" : "events", store);
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);

	context->connectFullMesh(part, device);
	for (int i = 0; blocks && i < size; i++) {
		if (i != rank) {
			context->getPair(i)->setSync(true, false);
		}
	}
	return context;
}

} // namespace

int main(int argc, char **argv)
try {
	if (argc != 8) {
		throw std::invalid_argument(
			"must have RANK SIZE ADDRESS STORE ALGORITHM PLAN BUDGET_S");
	}
	GlooDriver driver = {};
	gloo::rendezvous::FileStore store(argv[4]);

	driver.base = {atoi(argv[1]), atoi(argv[2]), 1, begin, allreduce, end, max};
	driver.algorithm = argv[5];
	driver.events = connect(driver.base.rank, driver.base.size, argv[3], store, false);
	driver.blocking = connect(driver.base.rank, driver.base.size, argv[3], store, true);
	driver_run(&driver.base, argv[6], atof(argv[7]));
	max(&driver.base, 0); /* none closes its pairs while another still needs them */
	return 0;
} catch (const std::exception &error) {
	fprintf(stderr, "gloo_allreduce: %s\n", error.what());
	return 1;
}
