#include "lib.hh"
namespace {
struct Square : Shape {
  double area(double s) const override { return Shape::area(s) * twice(s); }
};
}
static __attribute__((noinline)) int helper(int x) {
  volatile int y = x;
  return y / 3;
}
int main(int argc, char** argv) {
  struct Local {
    int n;
    __attribute__((noinline)) int method(int x) { return x * n + helper(x); }
  } local{argc};
  std::vector<std::string> names(argv, argv + argc);
  Square square;
  square.id = argc;
  auto more = [&](int x) { return tag(x).size() + twice(long(x)); };
  return work(argc, names) + int(square.area(argc)) + local.method(argc) + int(more(argc));
}
