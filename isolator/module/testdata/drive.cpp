// Drives the client for tests. Each input line is a JSON object with one call,
// which runs on its own thread. Each output line is the outcome of one call.
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "client.hpp"

using namespace mesosgpu;
using Value = nlohmann::json;

namespace {

Amounts amounts(const Value& list) {
  Amounts out;
  for (const auto& r : list) {
    const std::string name = r.at("name");
    if (r.contains("set")) {
      add(out, name, r["set"].get<std::set<std::string>>());
    } else if (r.contains("ranges")) {
      Ranges ranges;
      for (const auto& range : r["ranges"]) {
        ranges.emplace_back(range.at("begin"), range.at("end"));
      }
      add(out, name, ranges);
    } else {
      add(out, name, static_cast<std::int64_t>(r.value("scalar", 0.0) * 1000));
    }
  }
  return out;
}

Request request(const Value& v) {
  Request r;
  r.container = v.at("container");
  r.directory = v.value("directory", "");
  r.rootfs = v.value("rootfs", false);
  r.framework = v.value("framework", "");
  r.executor = v.value("executor", "");
  r.task = v.value("task", "");
  r.job = v.value("job", "");
  r.resources = amounts(v.value("resources", Value::array()));
  const Value image = v.value("image", Value::object());
  r.labels = image.value("labels", r.labels);
  r.environment = image.value("environment", r.environment);
  return r;
}

Value show(const Done&) { return Value::object(); }
Value show(const std::vector<std::string>& devices) { return {{"devices", devices}}; }
Value show(const Grant& g) {
  Value v{{"devices", g.devices}, {"nodes", Value::array()}, {"mounts", Value::array()}, {"environment", g.environment}};
  for (const auto& n : g.nodes) {
    v["nodes"].push_back({{"path", n.path}, {"major", n.major}, {"minor", n.minor}});
  }
  for (const auto& m : g.mounts) {
    v["mounts"].push_back({{"source", m.source}, {"target", m.target}, {"read_only", m.readOnly}});
  }
  return v;
}

template <typename T>
Value show(const Result<T>& r) {
  constexpr const char* kinds[] = {"away", "broken", "refused"};
  if (r.ok()) {
    return {{"kind", "ok"}, {"value", show(r.value)}};
  }
  return {{"kind", kinds[static_cast<int>(r.problem->kind)]}, {"message", r.problem->message}, {"status", r.problem->status}};
}

Value call(Client& client, const Value& v) {
  const std::string op = v.at("op");
  const Value body = v.value("body", Value::object());
  const Deadline by = Clock::now() + std::chrono::milliseconds(v.value("timeout_ms", 5000));
  if (op == "recover") return show(client.recover(body.at("containers").get<std::vector<std::string>>(), by));
  if (op == "prepare") return show(client.prepare(request(body), by));
  if (op == "isolate") return show(client.isolate(body.at("container"), body.at("pid"), by));
  if (op == "update") return show(client.update(body.at("container"), amounts(body.at("resources")), by));
  if (op == "cleanup") return show(client.cleanup(body.at("container"), by));
  if (op == "contains") return {{"kind", contains(amounts(body.at("a")), amounts(body.at("b"))) ? "yes" : "no"}};
  client.stop();
  return {{"kind", "ok"}};
}

}  // namespace

int main(int, char** argv) {
  Client client(argv[1]);
  std::mutex out;
  std::vector<std::thread> threads;
  for (std::string line; std::getline(std::cin, line);) {
    threads.emplace_back([&, v = Value::parse(line)] {
      Value answer = call(client, v);
      answer["id"] = v.at("id");
      std::lock_guard<std::mutex> lock(out);
      std::cout << answer.dump(-1, ' ', false, Value::error_handler_t::replace) << std::endl;
    });
  }
  for (auto& t : threads) {
    t.join();
  }
}
