#include "client.hpp"

#include <curl/curl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "json.hpp"

namespace mesosgpu {
namespace {

constexpr std::size_t maxBody = 1 << 20, maxHeader = 16 << 10;

using Handle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

struct Response {
  long status = 0;  // HTTP status
  std::string body;
  std::size_t header = 0;  // size of the header
  bool tooLarge = false;
  long number = 0;  // errno of the failed connection, 0 without one
  const std::atomic<bool>& stopped;
};

std::size_t appendBody(char* data, std::size_t, std::size_t size, void* to) {
  auto& response = *static_cast<Response*>(to);
  if (response.body.size() + size > maxBody) {
    response.tooLarge = true;
    return 0;
  }
  response.body.append(data, size);
  return size;
}

std::size_t countHeader(char*, std::size_t, std::size_t size, void* to) {
  auto& response = *static_cast<Response*>(to);
  response.header += size;
  response.tooLarge = response.tooLarge || response.header > maxHeader;
  return response.tooLarge ? 0 : size;
}

// libcurl calls checkStopped several times a second; a nonzero result ends the
// transfer.
int checkStopped(void* with, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Response*>(with)->stopped.load() ? 1 : 0;
}

// A container that the agent forks must not inherit a connection to the daemon:
// the daemon identifies the caller by the credentials that the kernel reports.
curl_socket_t openSocket(void*, curlsocktype, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

}  // namespace

// The name of a call in error messages, and its URL path.
struct Client::Call {
  const char* verb;
  const char* path;
  std::string object;
};

namespace {

// checkSocketOwner rejects a socket that is not owned by root or the agent's user.
std::optional<std::string> checkSocketOwner(const std::string& socket) {
  struct stat s;
  if (::stat(socket.c_str(), &s) != 0) {
    return std::string(std::strerror(errno)) + "; start the daemon: mesos-gpu agent";
  }
  if (!S_ISSOCK(s.st_mode)) {
    return "it is no socket; give the module and the daemon the same path";
  }
  if (s.st_uid != 0 && s.st_uid != ::geteuid()) {
    return "it belongs to uid " + std::to_string(s.st_uid) + ", not to root; put the daemon's socket where only root may write";
  }
  return std::nullopt;
}

// Returns why a transfer failed.
std::string describeFailure(CURLcode code, const Response& response, std::chrono::milliseconds allowed) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
      return std::string(response.number ? std::strerror(static_cast<int>(response.number)) : "cannot connect") +
             "; start the daemon: mesos-gpu agent";
    case CURLE_OPERATION_TIMEDOUT:
      return "no whole answer within " + std::to_string(allowed.count()) +
             " ms; look at the daemon's log, or give the module a longer timeout";
    case CURLE_ABORTED_BY_CALLBACK:
      return "the agent is stopping";
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
      return "it closed the connection before its answer was whole; look at the daemon's log";
    default:
      if (response.tooLarge) {
        return "its answer has more than " + std::to_string(maxBody) + " bytes, or " + std::to_string(maxHeader) +
               " of header; is it the GPU daemon?";
      }
      return std::string(curl_easy_strerror(code)) + "; is it the GPU daemon?";
  }
}

bool isUnavailable(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
      return true;
    default:
      return false;
  }
}

// Posts one body over one connection.
CURLcode transfer(const std::string& socket, const std::string& url, const std::string& body, std::chrono::milliseconds allowed, Response& response) {
  Handle handle(curl_easy_init(), curl_easy_cleanup);
  Headers type(curl_slist_append(nullptr, "Content-Type: application/json"), curl_slist_free_all);
  if (!handle || !type || !curl_slist_append(type.get(), "Expect:")) {
    return CURLE_OUT_OF_MEMORY;
  }
  CURL* c = handle.get();
  curl_easy_setopt(c, CURLOPT_URL, url.c_str());
  curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, socket.c_str());
  curl_easy_setopt(c, CURLOPT_PROXY, "");  // ignore proxy variables in the agent's environment
  curl_easy_setopt(c, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, type.get());
  curl_easy_setopt(c, CURLOPT_USERAGENT, "mesos-gpu-isolator");
  curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(c, CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, static_cast<long>(allowed.count()));
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, openSocket);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, appendBody);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &response);
  curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, countHeader);
  curl_easy_setopt(c, CURLOPT_HEADERDATA, &response);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, checkStopped);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, &response);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  const CURLcode code = curl_easy_perform(c);
  curl_easy_getinfo(c, CURLINFO_OS_ERRNO, &response.number);
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &response.status);
  return code;
}

}  // namespace

Client::Client(std::string socket) : socket_(std::move(socket)) {
  static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)once;  // if the initialization failed, every call fails with an error
}

Result<std::string> Client::post(const Call& call, const std::string& body, Deadline deadline) const {
  const std::string what = std::string(call.verb) + " " + call.object + ": ask the GPU daemon at " + socket_ + ": ";
  auto allowed = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  if (allowed.count() <= 0) {
    return Problem{Problem::Kind::unavailable, what + "no time left: calls before this one took it all; look at the daemon's log"};
  }
  if (auto distrust = checkSocketOwner(socket_)) {
    return Problem{Problem::Kind::unavailable, what + *distrust};
  }
  Response response{0, {}, 0, false, 0, stopped_};
  if (CURLcode code = transfer(socket_, std::string("http://agent") + call.path, body, allowed, response); code != CURLE_OK) {
    return Problem{isUnavailable(code) ? Problem::Kind::unavailable : Problem::Kind::broken, what + describeFailure(code, response, allowed)};
  }
  if (response.status == 200) {
    return response.body;
  }
  const bool rejected = response.status >= 400 && response.status < 500;
  std::string reason = json::decodeReason(response.body);
  if (reason.find(call.object) != std::string::npos) {
    return Problem{rejected ? Problem::Kind::refused : Problem::Kind::broken, "the GPU daemon at " + socket_ + ": " + reason, response.status};
  }
  if (reason.empty()) {
    reason = "HTTP status " + std::to_string(response.status) + " without a reason; is it the GPU daemon?";
  }
  return Problem{rejected ? Problem::Kind::refused : Problem::Kind::broken, what + reason, response.status};
}

template <typename T, typename Encode, typename Decode>
Result<T> Client::callDaemon(const Call& call, Deadline deadline, Encode encode, Decode decode) const noexcept {
  try {
    Result<std::string> body = post(call, encode(), deadline);
    if (!body.ok()) {
      return *body.problem;
    }
    Result<T> out = decode(body.value);
    if (!out.ok()) {
      out.problem->message = std::string(call.verb) + " " + call.object + ": the GPU daemon at " + socket_ + " answered nonsense: " +
                           out.problem->message + "; are module and daemon of one version?";
    }
    return out;
  } catch (const std::exception& e) {
    return Problem{Problem::Kind::unavailable, e.what()};
  }
}

Result<Done> Client::recover(const std::vector<std::string>& containers, Deadline deadline) const noexcept {
  return callDaemon<Done>({"recover", "/v1/recover", std::to_string(containers.size()) + " containers"}, deadline,
                      [&] { return json::recover(containers); }, json::decodeObject);
}

Result<Grant> Client::prepare(const Request& request, Deadline deadline) const noexcept {
  return callDaemon<Grant>({"prepare", "/v1/prepare", "container " + request.container}, deadline, [&] { return json::prepare(request); },
                    json::decodeGrant);
}

Result<Done> Client::isolate(const std::string& container, int pid, Deadline deadline) const noexcept {
  return callDaemon<Done>({"isolate", "/v1/isolate", "container " + container}, deadline, [&] { return json::isolate(container, pid); },
                      json::decodeObject);
}

Result<std::vector<std::string>> Client::update(const std::string& container, const Amounts& resources, Deadline deadline) const noexcept {
  return callDaemon<std::vector<std::string>>({"update", "/v1/update", "container " + container}, deadline,
                                       [&] { return json::update(container, resources); }, json::decodeDevices);
}

Result<Done> Client::cleanup(const std::string& container, Deadline deadline) const noexcept {
  return callDaemon<Done>({"clean up", "/v1/cleanup", "container " + container}, deadline, [&] { return json::cleanup(container); },
                      json::decodeObject);
}

}  // namespace mesosgpu
