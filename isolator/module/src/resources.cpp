#include <algorithm>

#include "api.hpp"

namespace mesosgpu {
namespace {

bool isEmpty(const Amount& a) {
  if (auto scalar = std::get_if<std::int64_t>(&a)) {
    return *scalar <= 0;
  }
  if (auto items = std::get_if<std::set<std::string>>(&a)) {
    return items->empty();
  }
  return std::get<Ranges>(a).empty();
}

// Returns the ranges sorted, with overlapping and adjacent ones joined.
Ranges mergeRanges(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges out;
  for (const auto& [first, last] : ranges) {
    if (!out.empty() && first <= out.back().second + 1) {
      out.back().second = std::max(out.back().second, last);
    } else {
      out.emplace_back(first, last);
    }
  }
  return out;
}

bool covers(const Amount& a, const Amount& b) {
  if (a.index() != b.index()) {
    return false;
  }
  if (auto scalar = std::get_if<std::int64_t>(&a)) {
    return *scalar >= std::get<std::int64_t>(b);
  }
  if (auto items = std::get_if<std::set<std::string>>(&a)) {
    const auto& wanted = std::get<std::set<std::string>>(b);
    return std::includes(items->begin(), items->end(), wanted.begin(), wanted.end());
  }
  const auto& ranges = std::get<Ranges>(a);
  const auto& wanted = std::get<Ranges>(b);
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& w) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const auto& r) { return r.first <= w.first && w.second <= r.second; });
  });
}

}  // namespace

void add(Amounts& to, const std::string& name, const Amount& amount) {
  if (isEmpty(amount)) {
    return;
  }
  auto [at, added] = to.try_emplace(name, amount);
  if (!added && at->second.index() == amount.index()) {
    if (auto scalar = std::get_if<std::int64_t>(&at->second)) {
      *scalar += std::get<std::int64_t>(amount);
    } else if (auto items = std::get_if<std::set<std::string>>(&at->second)) {
      const auto& more = std::get<std::set<std::string>>(amount);
      items->insert(more.begin(), more.end());
    } else {
      auto& ranges = std::get<Ranges>(at->second);
      const auto& more = std::get<Ranges>(amount);
      ranges.insert(ranges.end(), more.begin(), more.end());
    }
  }
  if (auto ranges = std::get_if<Ranges>(&at->second)) {
    *ranges = mergeRanges(*ranges);
  }
}

bool contains(const Amounts& a, const Amounts& b) {
  return std::all_of(b.begin(), b.end(), [&](const auto& wanted) {
    auto has = a.find(wanted.first);
    return has != a.end() && covers(has->second, wanted.second);
  });
}

}  // namespace mesosgpu
