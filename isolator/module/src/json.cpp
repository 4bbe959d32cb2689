#include "json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mesosgpu::json {
namespace {

using Value = nlohmann::json;

std::string text(const Value& v) { return v.dump(-1, ' ', false, Value::error_handler_t::replace); }

Value resources(const Amounts& all) {
  Value out = Value::array();
  for (const auto& [name, amount] : all) {
    Value v{{"name", name}};
    if (auto scalar = std::get_if<std::int64_t>(&amount)) {
      v["scalar"] = static_cast<double>(*scalar) / 1000;
    } else if (auto items = std::get_if<std::set<std::string>>(&amount)) {
      v["set"] = *items;
    } else {
      for (const auto& [first, last] : std::get<Ranges>(amount)) {
        v["ranges"].push_back({{"begin", first}, {"end", last}});
      }
    }
    out.push_back(std::move(v));
  }
  return out;
}

// Reader decodes a response. After the first problem it stops reading.
class Reader {
 public:
  std::optional<Problem> problem;

  Value parse(const std::string& body) {
    Value v = Value::parse(body, nullptr, false);
    if (v.is_discarded()) {
      fail("the answer", "no JSON");
    } else if (!v.is_object()) {
      fail("the answer", "no object");
    }
    return v;
  }

  // Calls f for each item of a list; a missing list is empty.
  template <typename F>
  void forEach(const Value& in, const std::string& name, F f) {
    const Value* list = find(in, name);
    if (list && !list->is_array()) {
      return fail(name, "no list");
    }
    for (std::size_t i = 0; list && !problem && i < list->size(); i++) {
      f((*list)[i], name + "[" + std::to_string(i) + "]");
    }
  }

  std::string string(const Value& v, const std::string& name) {
    if (!v.is_string()) {
      fail(name, "no string");
      return "";
    }
    auto s = v.get<std::string>();
    if (s.empty() || s.find('\0') != std::string::npos) {
      fail(name, "empty, or has a zero byte");
    }
    return s;
  }

  // An absolute path that stays below the given folder.
  std::string path(const Value& in, const std::string& name, const std::string& below) {
    const Value* v = find(in, name.substr(name.rfind('.') + 1));
    if (!v) {
      fail(name, "missing");
      return "";
    }
    std::string p = string(*v, name);
    if (!problem && (p.size() > 4096 || p.compare(0, below.size(), below) != 0 || p.size() == below.size() ||
                   (p + "/").find("/../") != std::string::npos || (p + "/").find("/./") != std::string::npos ||
                   p.find("//") != std::string::npos || p.back() == '/')) {
      fail(name, "no plain path below " + below);
    }
    return p;
  }

  std::uint32_t number(const Value& in, const std::string& key, const std::string& name, std::uint32_t most) {
    const Value* v = find(in, key);
    if (!v || !v->is_number_unsigned() || v->get<std::uint64_t>() > most) {
      fail(name + "." + key, "no number from 0 to " + std::to_string(most));
      return 0;
    }
    return static_cast<std::uint32_t>(v->get<std::uint64_t>());
  }

  // Returns a member, or nullptr if it is missing or null.
  static const Value* find(const Value& in, const std::string& key) {
    if (!in.is_object()) {
      return nullptr;
    }
    auto at = in.find(key);
    return at == in.end() || at->is_null() ? nullptr : &*at;
  }

  void fail(const std::string& name, const std::string& is) {
    if (!problem) {
      problem = Problem{Problem::Kind::broken, name + " is " + is};
    }
  }
};

std::vector<std::string> readDevices(Reader& r, const Value& v) {
  std::vector<std::string> out;
  r.forEach(v, "devices", [&](const Value& item, const std::string& name) { out.push_back(r.string(item, name)); });
  return out;
}

std::map<std::string, std::string> readEnvironment(Reader& r, const Value& v) {
  std::map<std::string, std::string> out;
  const Value* all = Reader::find(v, "environment");
  if (!all) {
    return out;
  }
  if (!all->is_object()) {
    r.fail("environment", "no object");
    return out;
  }
  for (const auto& [name, value] : all->items()) {
    if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos) {
      r.fail("environment", "a name that no variable can have");
    } else if (!value.is_string() || value.get<std::string>().find('\0') != std::string::npos) {
      r.fail("environment." + name, "no string without zero bytes");
    } else {
      out[name] = value.get<std::string>();
    }
  }
  return out;
}

template <typename T>
Result<T> finishReading(Reader& r, T value) {
  if (r.problem) {
    return *r.problem;
  }
  return value;
}

}  // namespace

std::string prepare(const Request& r) {
  return text({{"container", r.container},
               {"directory", r.directory},
               {"rootfs", r.rootfs},
               {"framework", r.framework},
               {"executor", r.executor},
               {"task", r.task},
               {"job", r.job},
               {"resources", resources(r.resources)},
               {"image", {{"labels", r.labels}, {"environment", r.environment}}}});
}

std::string update(const std::string& container, const Amounts& all) {
  return text({{"container", container}, {"resources", resources(all)}});
}

std::string isolate(const std::string& container, int pid) {
  return text({{"container", container}, {"pid", pid}});
}

std::string cleanup(const std::string& container) { return text({{"container", container}}); }

std::string recover(const std::vector<std::string>& containers) {
  return text({{"containers", Value(containers)}});
}

Result<Grant> decodeGrant(const std::string& body) {
  Reader r;
  const Value v = r.parse(body);
  if (r.problem) {
    return *r.problem;
  }
  Grant g;
  g.devices = readDevices(r, v);
  r.forEach(v, "nodes", [&](const Value& item, const std::string& name) {
    // The kernel has 12 bits for the major number and 20 for the minor.
    g.nodes.push_back({r.path(item, name + ".path", "/dev/"), r.number(item, "major", name, 0xfff), r.number(item, "minor", name, 0xfffff)});
  });
  r.forEach(v, "mounts", [&](const Value& item, const std::string& name) {
    const Value* readOnly = Reader::find(item, "read_only");
    if (readOnly && !readOnly->is_boolean()) {
      r.fail(name + ".read_only", "neither true nor false");
      return;
    }
    g.mounts.push_back({r.path(item, name + ".source", "/"), r.path(item, name + ".target", "/"), readOnly && readOnly->get<bool>()});
  });
  g.environment = readEnvironment(r, v);
  return finishReading(r, std::move(g));
}

Result<std::vector<std::string>> decodeDevices(const std::string& body) {
  Reader r;
  const Value v = r.parse(body);
  if (r.problem) {
    return *r.problem;
  }
  auto list = readDevices(r, v);
  return finishReading(r, std::move(list));
}

Result<Done> decodeObject(const std::string& body) {
  Reader r;
  r.parse(body);
  return finishReading(r, Done{});
}

std::string decodeReason(const std::string& body) {
  const Value v = Value::parse(body, nullptr, false);
  const Value* why = v.is_discarded() ? nullptr : Reader::find(v, "error");
  if (!why || !why->is_string()) {
    return "";
  }
  auto s = why->get<std::string>();
  auto end = std::min<std::size_t>(s.size(), 2000);
  while (end < s.size() && end > 0 && (s[end] & 0xc0) == 0x80) {
    end--;  // Mesos messages must be valid UTF-8: do not cut a character
  }
  s.resize(end);
  for (char& c : s) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      c = ' ';
    }
  }
  return s;
}

}  // namespace mesosgpu::json
