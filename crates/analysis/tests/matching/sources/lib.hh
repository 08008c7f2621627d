#pragma once
#include <map>
#include <string>
#include <vector>
struct Shape {
  virtual ~Shape() {}
  virtual double area(double scale) const;
  int id = 0;
};
template <class T>
__attribute__((noinline)) T twice(T v) {
  volatile T w = v;
  return w + v;
}
int work(int n, const std::vector<std::string>& names);
std::string tag(int n);
