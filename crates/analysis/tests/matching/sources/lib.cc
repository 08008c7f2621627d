#include "lib.hh"
#include <algorithm>
#include <stdexcept>
namespace {
struct Hidden {
  int seed;
  __attribute__((noinline)) int go(int x) const {
    volatile int y = x;
    return y * seed;
  }
};
template <class F>
__attribute__((noinline)) int each(const std::vector<std::string>& names, F f) {
  int sum = 0;
  for (auto& name : names) sum += f(name);
  return sum;
}
}
static __attribute__((noinline)) int helper(int x, int y, int z) {
  if (x > 1000) throw std::runtime_error("too large");
  volatile int sum = x + z;
  for (int i = 0; i < x; i++) sum += i ^ y;
  return sum;
}
double Shape::area(double scale) const { return twice(scale) * id; }
std::string tag(int n) { return std::string(n % 20, 'a' + n % 7); }
int work(int n, const std::vector<std::string>& names) {
  std::map<std::string, int> counts;
  Hidden hidden{n};
  for (auto& name : names) counts[name] += helper(n, 5, twice(n));
  std::vector<int> all;
  for (auto& pair : counts) all.push_back(pair.second);
  std::sort(all.begin(), all.end(), [n](int a, int b) { return (a ^ n) < (b ^ n); });
  int a = each(names, [&](const std::string& s) { return hidden.go(s.size()); });
  int b = each(names, [=](const std::string& s) { return int(s[0]) ^ n; });
  return (all.empty() ? 0 : all[0]) + a + b;
}
