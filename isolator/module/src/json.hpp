// The daemon API's JSON. Decoding believes nothing: a field of another type,
// a path that leaves its place, a number out of range is a problem that names
// the field. What is missing or null is empty; fields it does not know are
// left alone, so a newer daemon may say more.
#pragma once

#include <string>
#include <vector>

#include "api.hpp"

namespace mesosgpu::json {

// Texts come from frameworks and images: bytes that are no UTF-8 are replaced.
std::string prepare(const Request&);
std::string update(const std::string& container, const Amounts&);
std::string isolate(const std::string& container, int pid);
std::string cleanup(const std::string& container);
std::string recover(const std::vector<std::string>& containers);

// The problems' messages begin with the field; their kind is broken.
Result<Grant> grant(const std::string& text);
Result<std::vector<std::string>> devices(const std::string& text);
Result<Done> object(const std::string& text);

// The reason in a refusal's body, in one printable line of bounded length;
// empty where there is none.
std::string reason(const std::string& text);

}  // namespace mesosgpu::json
