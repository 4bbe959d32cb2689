// The JSON of the daemon's API. Decoding trusts nothing: a field of the wrong
// type, a path outside its folder or a number out of range is a problem that
// names the field. A missing or null field is empty. Unknown fields are
// ignored, so a newer daemon may send more.
#pragma once

#include <string>
#include <vector>

#include "api.hpp"

namespace mesosgpu::json {

// Strings come from frameworks and images; invalid UTF-8 is replaced.
std::string prepare(const Request&);
std::string update(const std::string& container, const Amounts&);
std::string isolate(const std::string& container, int pid);
std::string cleanup(const std::string& container);
std::string recover(const std::vector<std::string>& containers);

// Problem messages start with the field, and their kind is broken.
Result<Grant> decodeGrant(const std::string& text);
Result<std::vector<std::string>> decodeDevices(const std::string& text);
Result<Done> decodeObject(const std::string& text);

// Returns the reason in the body of a rejection as one printable line of
// bounded length, or an empty string.
std::string decodeReason(const std::string& text);

}  // namespace mesosgpu::json
