// SPDX-License-Identifier: Apache-2.0
#include "s3/credentials.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "s3/answer.h"
#include "s3/http.h"
#include "s3/profile.h"
#include "s3/settings.h"

namespace hearth::s3 {
namespace {

using Json = nlohmann::json;
using Kind = StoreResult::Kind;

constexpr int64_t kAskBeforeEnd_s = 300;    // credentials of less than this are found again
constexpr int64_t kReadFilesAgain_s = 300;  // files may change
constexpr int64_t kAskInVainAgain_s = 60;
constexpr int64_t kMetadataTimeout_s = 1;  // the server is on this host or next to it
constexpr int64_t kStsTimeout_s = 10;
constexpr int64_t kTries = 3;
constexpr std::chrono::milliseconds kPause{200};  // before the second try; twice as long before the third

FoundCredentials failed(Kind kind, std::string why) { return {{}, 0, std::move(why), kind}; }

// "2026-01-31T23:59:59Z", perhaps with a fraction of a second; 0 for another text.
int64_t unix_time(const std::string& text) {
  std::tm parts{};
  return ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr ? 0 : ::timegm(&parts);
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// The JSON of containers, of the metadata server and of a process, which differ in the name of the token.
FoundCredentials of_json(const std::string& text, const char* token, const std::string& from) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return failed(Kind::kRefused, from + " does not answer with JSON");
  FoundCredentials found;
  found.credentials = {text_at(json, "AccessKeyId"), text_at(json, "SecretAccessKey"), text_at(json, token), {}};
  if (found.credentials.access_key.empty() || found.credentials.secret_key.empty())
    return failed(Kind::kRefused, from + " gives no AccessKeyId and SecretAccessKey");
  found.expires_s = unix_time(text_at(json, "Expiration"));
  return found;
}

std::string trimmed(const std::string& text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  return end == std::string::npos ? "" : text.substr(0, end + 1);
}

// Both keys have a value, or none; `key` and `secret` are their names.
template <class Value>
FoundCredentials of_pair(const Value& value, const char* key, const char* secret, const char* token) {
  FoundCredentials found;
  found.credentials = {value(key), value(secret), value(token), {}};
  const bool has_key = !found.credentials.access_key.empty(), has_secret = !found.credentials.secret_key.empty();
  if (has_key == has_secret) return found;
  return failed(Kind::kRefused, std::string(has_key ? key : secret) + " is set without " + (has_key ? secret : key) +
                                    ": set both or none");
}

FoundCredentials of_environment() {
  return of_pair([](const char* name) { return variable(name); }, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                 "AWS_SESSION_TOKEN");
}

FoundCredentials of_profile(const ProfileFiles& profile) {
  // Keys beside a role are those that assume it: another identity.
  if (!profile.in_either("role_arn").empty()) return {};
  for (const auto& file : {&ProfileFiles::in_credentials, &ProfileFiles::in_config}) {
    FoundCredentials found = of_pair([&](const char* key) { return (profile.*file)(key); }, "aws_access_key_id",
                                     "aws_secret_access_key", "aws_session_token");
    if (found.failure != Kind::kDone) found.why = "the profile " + profile.name + ": " + found.why;
    if (found.failure != Kind::kDone || found.credentials.are_there()) return found;
  }
  return {};
}

FoundCredentials of_process(const ProfileFiles& profile) {
  std::string command = profile.in_config("credential_process");
  if (command.empty()) command = profile.in_credentials("credential_process");
  if (command.empty()) return {};
  std::FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return failed(Kind::kRefused, "credential_process cannot be started");
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  if (::pclose(pipe) != 0) return failed(Kind::kRefused, "credential_process fails");
  return of_json(output, "SessionToken", "credential_process");
}

// An error if the profile was named, or wants something that we do not read. Keys and a process were looked for.
FoundCredentials of_unread_profile(const ProfileFiles& profile) {
  const auto has_one = [&](std::initializer_list<const char*> keys) {
    return std::ranges::any_of(keys, [&](const char* key) { return !profile.in_either(key).empty(); });
  };
  if (has_one({"web_identity_token_file"}) && has_one({"role_arn"})) return {};
  const std::string name = "the profile " + profile.name,
                    fix =
                        ", which is not read: give it credential_process = aws configure export-credentials "
                        "--profile " +
                        profile.name;
  if (has_one({"sso_session", "sso_start_url", "sso_account_id", "sso_role_name"}))
    return failed(Kind::kRefused, name + " signs in with SSO" + fix);
  if (has_one({"role_arn", "source_profile", "credential_source"}))
    return failed(Kind::kRefused, name + " assumes a role" + fix);
  if (variable("AWS_PROFILE", variable("AWS_DEFAULT_PROFILE")).empty()) return {};
  return failed(Kind::kRefused, name +
                                    ", which AWS_PROFILE names, has no aws_access_key_id, credential_process or "
                                    "web_identity_token_file: give it one, or unset AWS_PROFILE");
}

bool may_work_later(const HttpAnswer& answer) {
  if (!answer.failure.empty()) return !answer.is_final;
  return answer.status == 408 || answer.status == 429 || answer.status / 100 == 5;
}

// Tries a few times: these servers are out of reach for moments, such as while a container starts.
void send(const HttpCall& call, HttpAnswer& answer) {
  HttpConnection connection;
  for (int64_t tries = 1;; ++tries) {
    connection.send(call, answer);
    if (!may_work_later(answer) || tries == kTries) return;
    std::this_thread::sleep_for(kPause * tries);
  }
}

// The answer's body; empty, with the reason in `found`, after an error.
std::string ask(const HttpCall& call, const std::string& from, FoundCredentials& found) {
  HttpAnswer answer;
  send(call, answer);
  if (answer.failure.empty() && answer.status == 200 && !answer.body.empty()) return answer.body;
  const std::string what = answer.status == 200 ? " answers nothing" : " answers " + std::to_string(answer.status);
  found = failed(may_work_later(answer) ? Kind::kUnreachable : Kind::kRefused,
                 from + (answer.failure.empty() ? what : ": " + answer.failure));
  return {};
}

FoundCredentials of_web_identity(const ProfileFiles& profile, const std::string& region) {
  const std::string file = variable("AWS_WEB_IDENTITY_TOKEN_FILE", profile.in_either("web_identity_token_file"));
  const std::string role = variable("AWS_ROLE_ARN", profile.in_either("role_arn"));
  if (file.empty()) return {};
  const std::string token = trimmed(content_of(file)), from = "the web identity";
  if (role.empty()) return failed(Kind::kRefused, from + " has a token but no role: set AWS_ROLE_ARN");
  if (token.empty()) return failed(Kind::kRefused, from + " has no token in " + file);
  std::string name = variable("AWS_ROLE_SESSION_NAME", profile.in_either("role_session_name"));
  if (name.empty()) name = "hearth";
  const std::string body =
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" + percent_encoded(role, false) +
      "&RoleSessionName=" + percent_encoded(name, false) + "&WebIdentityToken=" + percent_encoded(token, false);
  FoundCredentials found;
  const std::string xml =
      ask({.method = "POST",
           .url = variable("AWS_ENDPOINT_URL_STS", "https://sts." + region + "." + amazon_domain(region)),
           .headers = {{"content-type", "application/x-www-form-urlencoded"}},
           .body = body,
           .connect_timeout_s = kStsTimeout_s,
           .request_timeout_s = kStsTimeout_s},
          from, found);
  if (xml.empty()) return found;
  found.credentials = {element(xml, "AccessKeyId"), element(xml, "SecretAccessKey"), element(xml, "SessionToken"), {}};
  found.expires_s = unix_time(element(xml, "Expiration"));
  if (found.credentials.access_key.empty() || found.credentials.secret_key.empty())
    return failed(Kind::kRefused, from + " gets no AccessKeyId and SecretAccessKey");
  return found;
}

// With the port. The rest of a container's URL may be a secret.
std::string host_of(const std::string& url) {
  const size_t slashes = url.find("://"), begin = slashes == std::string::npos ? 0 : slashes + 3;
  return url.substr(begin, url.find('/', begin) - begin);
}

// Whether the token of a container may be sent there: encrypted, or to this host or the servers of Amazon's containers.
bool is_trusted(const std::string& url) {
  if (host_of(url).find('@') != std::string::npos) return false;  // the host is what follows
  if (url.starts_with("https://")) return true;
  return std::ranges::any_of(std::initializer_list<std::string>{"127.0.0.1", "localhost", "[::1]", "169.254.170.2",
                                                                "169.254.170.23", "[fd00:ec2::23]"},
                             [&](const std::string& host) {
                               const std::string begin = "http://" + host;
                               return url == begin || url.starts_with(begin + "/") || url.starts_with(begin + ":");
                             });
}

FoundCredentials of_container() {
  const std::string relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const std::string url =
      relative.empty() ? variable("AWS_CONTAINER_CREDENTIALS_FULL_URI") : "http://169.254.170.2" + relative;
  if (url.empty()) return {};
  const std::string host = host_of(url), shown = host.substr(0, host.find_first_of("?#"));
  const std::string from = "the container's server " + shown.substr(shown.rfind('@') + 1);
  if (!is_trusted(url))
    return failed(Kind::kRefused, from + " is neither encrypted nor on this host, or its URL has an @");
  const std::string file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const std::string token = file.empty() ? variable("AWS_CONTAINER_AUTHORIZATION_TOKEN") : trimmed(content_of(file));
  HttpCall call{.method = "GET",
                .url = url,
                .connect_timeout_s = kStsTimeout_s,
                .request_timeout_s = kStsTimeout_s,
                .is_local = true};
  if (!token.empty()) call.headers["authorization"] = token;
  FoundCredentials found;
  const std::string body = ask(call, from, found);
  return body.empty() ? found : of_json(body, "Token", from);
}

// The text at a path of the metadata server, with a token of its second version where it gives one.
std::string of_metadata(const std::string& path, std::string& why) {
  std::string disabled = variable("AWS_EC2_METADATA_DISABLED");
  for (char& c : disabled) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (disabled == "true") {
    why = "AWS_EC2_METADATA_DISABLED is true";
    return {};
  }
  std::string server = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254");
  while (server.ends_with('/')) server.pop_back();
  HttpCall call{.method = "PUT",
                .url = server + "/latest/api/token",
                .headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}},
                .connect_timeout_s = kMetadataTimeout_s,
                .request_timeout_s = kMetadataTimeout_s,
                .is_local = true};
  HttpAnswer answer;
  send(call, answer);
  if (!answer.failure.empty()) {
    why = "the metadata server: " + answer.failure;
    return {};
  }
  call.method = "GET";
  call.url = server + path;
  call.headers.clear();
  if (answer.status == 200) call.headers["x-aws-ec2-metadata-token"] = answer.body;
  FoundCredentials found;
  std::string body = ask(call, "the metadata server", found);
  if (body.empty()) why = found.why;
  return body;
}

FoundCredentials of_machine() {
  const std::string path = "/latest/meta-data/iam/security-credentials/";
  FoundCredentials found;
  const std::string roles = of_metadata(path, found.why);
  if (roles.empty()) return found;
  const std::string body = of_metadata(path + trimmed(roles.substr(0, roles.find('\n'))), found.why);
  if (body.empty()) return found;
  found = of_json(body, "Token", "the metadata server");
  found.failure = Kind::kDone;  // nobody configured it: the machine is just there
  return found;
}

}  // namespace

FoundCredentials find_credentials(const std::string& region) {
  std::string why;
  const auto is_end = [&](FoundCredentials& found) {
    if (found.failure != Kind::kDone) {
      found.why = "the credentials that are configured cannot be used: " + found.why;
      return true;
    }
    if (!found.why.empty()) why += (why.empty() ? "" : "; ") + found.why;
    return found.credentials.are_there();
  };
  if (FoundCredentials found = of_environment(); is_end(found)) return found;
  const ProfileFiles profile = read_profile_files();
  if (FoundCredentials found = of_profile(profile); is_end(found)) return found;
  if (FoundCredentials found = of_process(profile); is_end(found)) return found;
  if (FoundCredentials found = of_unread_profile(profile); is_end(found)) return found;
  if (FoundCredentials found = of_web_identity(profile, region); is_end(found)) return found;
  if (FoundCredentials found = of_container(); is_end(found)) return found;
  if (FoundCredentials found = of_machine(); is_end(found)) return found;
  return failed(Kind::kDone, "there are no credentials (" + why + ")");
}

std::string region_of_machine() {
  std::string why;
  return trimmed(of_metadata("/latest/meta-data/placement/region", why));
}

FoundCredentials CredentialSource::get(int64_t now_s) {
  const std::lock_guard lock(mutex_);
  if (now_s >= ask_again_s_) {
    FoundCredentials fresh = find_credentials(region_);
    const bool were_there = found_.credentials.are_there();
    // A server that fails for a moment does not take credentials that still hold.
    const bool still_holds = were_there && (found_.expires_s == 0 || found_.expires_s > now_s);
    // Requests that were signed once do not go on without a signature.
    if (fresh.failure == Kind::kDone && (were_there || found_.failure != Kind::kDone) && !fresh.credentials.are_there())
      fresh.failure = Kind::kUnreachable;
    if (fresh.credentials.are_there() || !still_holds) found_ = std::move(fresh);
    ask_again_s_ = now_s + kAskInVainAgain_s;
    if (found_.credentials.are_there() && found_.expires_s == 0)
      ask_again_s_ = now_s + kReadFilesAgain_s;
    else if (found_.credentials.are_there() && found_.expires_s > now_s)  // not used after their end
      ask_again_s_ = std::min(std::max(found_.expires_s - kAskBeforeEnd_s, ask_again_s_), found_.expires_s);
  }
  FoundCredentials found = found_;
  found.credentials.region = region_;
  return found;
}

}  // namespace hearth::s3
