// All ways in which C++ makes stacks. What runs between the two int3 instructions is followed step by step.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#define KEEP __attribute__((noinline))

static volatile long sink;

struct Guard {
	KEEP ~Guard() { sink = sink + 1; }
};

KEEP static long leaf(long x) { return x * 3 + sink; }

struct Shape {
	virtual ~Shape() = default;
	virtual long area(long scale) const = 0;
};
struct Square : Shape {
	KEEP long area(long scale) const override { return leaf(scale); }
};
struct Tall : virtual Square {
	KEEP long area(long scale) const override { return Square::area(scale) + 1; }
};

KEEP static long thrower(long depth)
{
	Guard guard;
	if (depth == 0)
		throw std::runtime_error("in flight");
	return thrower(depth - 1) + 1;
}

KEEP static long rethrower(long depth)
{
	try {
		return thrower(depth);
	} catch (const std::exception &) {
		sink = sink + leaf(2);
		throw;
	}
}

KEEP static long catcher()
{
	Guard guard;
	try {
		return rethrower(3);
	} catch (const std::runtime_error &error) {
		return long(error.what()[0]) + leaf(1);
	}
}

KEEP static long lambdas()
{
	long captured = sink;
	std::function<long(long)> twice = [&](long x) { return leaf(x + captured) * 2; };
	std::vector<long> numbers{ 4, 1, 3, 9, 2 };
	std::sort(numbers.begin(), numbers.end(), [&](long a, long b) { return leaf(a ^ captured) < leaf(b ^ captured); });
	return twice(numbers[0]);
}

struct alignas(64) Line {
	long words[8];
};
KEEP static long aligned(long x)
{
	Line line{};
	line.words[x & 7] = x;
	if (x == 0)
		throw x;
	return aligned(x - 1) + line.words[x & 7];
}

KEEP static long aligned_catcher()
{
	Line outer{};
	try {
		outer.words[1] = aligned(2);
	} catch (long x) {
		outer.words[0] = leaf(x);
	}
	return outer.words[0];
}

KEEP static long containers()
{
	std::map<std::string, long> counts;
	for (const char *name : { "one", "two", "a name too long for its place" })
		counts[name] += leaf(long(name[0]));
	return counts["one"];
}

int main()
{
	char go;
	if (read(0, &go, 1) != 1)
		return 1;
	__asm__ volatile("int3");
	std::unique_ptr<Shape> shape(new Tall);
	sink = sink + shape->area(2) + lambdas() + containers() + aligned_catcher();
	sink = sink + catcher();
	__asm__ volatile("int3");
	return 0;
}
