// SPDX-License-Identifier: Apache-2.0
#include "s3/credentials.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "s3/answer.h"
#include "s3/http.h"
#include "s3/profile.h"
#include "s3/settings.h"

namespace hearth::s3 {
namespace {

using Json = nlohmann::json;

constexpr int64_t kAskBeforeEnd_s = 300;    // credentials of less than this are found again
constexpr int64_t kReadFilesAgain_s = 300;  // files may change
constexpr int64_t kAskInVainAgain_s = 60;
constexpr int64_t kMetadataTimeout_s = 1;  // the server is on this host or next to it
constexpr int64_t kStsTimeout_s = 10;

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
  if (!json.is_object()) return {{}, 0, from + " does not answer with JSON"};
  FoundCredentials found{
      {text_at(json, "AccessKeyId"), text_at(json, "SecretAccessKey"), text_at(json, token), {}}, 0, {}};
  if (found.credentials.access_key.empty() || found.credentials.secret_key.empty())
    return {{}, 0, from + " gives no AccessKeyId and SecretAccessKey"};
  found.expires_s = unix_time(text_at(json, "Expiration"));
  return found;
}

std::string trimmed(const std::string& text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  return end == std::string::npos ? "" : text.substr(0, end + 1);
}

FoundCredentials of_environment() {
  return {{variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"), variable("AWS_SESSION_TOKEN"), {}}, 0, {}};
}

FoundCredentials of_profile() {
  for (const auto& value : {in_credentials, in_config}) {
    FoundCredentials found{
        {value("aws_access_key_id"), value("aws_secret_access_key"), value("aws_session_token"), {}}, 0, {}};
    if (!found.credentials.access_key.empty()) return found;
  }
  if (!in_config("sso_session").empty() || !in_config("sso_start_url").empty())
    return {{},
            0,
            "the profile signs in with SSO, which is not read: give it credential_process = aws configure "
            "export-credentials --profile " +
                profile_name()};
  return {};
}

FoundCredentials of_process() {
  std::string command = in_config("credential_process");
  if (command.empty()) command = in_credentials("credential_process");
  if (command.empty()) return {};
  std::FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return {{}, 0, "credential_process cannot be started"};
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  if (::pclose(pipe) != 0) return {{}, 0, "credential_process fails"};
  return of_json(output, "SessionToken", "credential_process");
}

// The answer's body; empty, with the reason in `why`, after an error.
std::string ask(const HttpCall& call, const std::string& from, std::string& why) {
  HttpAnswer answer;
  HttpConnection().send(call, answer);
  if (!answer.failure.empty())
    why = from + ": " + answer.failure;
  else if (answer.status != 200)
    why = from + " answers " + std::to_string(answer.status);
  else
    return answer.body;
  return {};
}

FoundCredentials of_web_identity(const std::string& region) {
  const std::string file = variable("AWS_WEB_IDENTITY_TOKEN_FILE", in_config("web_identity_token_file"));
  const std::string role = variable("AWS_ROLE_ARN", in_config("role_arn"));
  if (file.empty() || role.empty()) return {};
  const std::string token = trimmed(content_of(file)), from = "the web identity";
  if (token.empty()) return {{}, 0, from + " has no token in " + file};
  std::string name = variable("AWS_ROLE_SESSION_NAME", in_config("role_session_name"));
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
          from, found.why);
  if (xml.empty()) return found;
  found.credentials = {element(xml, "AccessKeyId"), element(xml, "SecretAccessKey"), element(xml, "SessionToken"), {}};
  found.expires_s = unix_time(element(xml, "Expiration"));
  if (!found.credentials.are_there()) found.why = from + " gets no AccessKeyId";
  return found;
}

// Whether the token of a container may be sent there: encrypted, or to this host or the servers of Amazon's containers.
bool is_trusted(const std::string& url) {
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
  const std::string from = "the container's server " + url;
  if (!is_trusted(url)) return {{}, 0, from + " is neither encrypted nor on this host"};
  const std::string file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const std::string token = file.empty() ? variable("AWS_CONTAINER_AUTHORIZATION_TOKEN") : trimmed(content_of(file));
  HttpCall call{.method = "GET",
                .url = url,
                .connect_timeout_s = kStsTimeout_s,
                .request_timeout_s = kStsTimeout_s,
                .is_local = true};
  if (!token.empty()) call.headers["authorization"] = token;
  FoundCredentials found;
  const std::string body = ask(call, from, found.why);
  return body.empty() ? found : of_json(body, "Token", from);
}

// The text at a path of the metadata server, with a token of its second version where it gives one.
std::string of_metadata(const std::string& path, std::string& why) {
  if (variable("AWS_EC2_METADATA_DISABLED") == "true") {
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
  HttpConnection().send(call, answer);
  if (!answer.failure.empty()) {
    why = "the metadata server: " + answer.failure;
    return {};
  }
  call.method = "GET";
  call.url = server + path;
  call.headers.clear();
  if (answer.status == 200) call.headers["x-aws-ec2-metadata-token"] = answer.body;
  return ask(call, "the metadata server", why);
}

FoundCredentials of_machine() {
  const std::string path = "/latest/meta-data/iam/security-credentials/";
  FoundCredentials found;
  const std::string roles = of_metadata(path, found.why);
  if (roles.empty()) return found;
  const std::string body = of_metadata(path + trimmed(roles.substr(0, roles.find('\n'))), found.why);
  return body.empty() ? found : of_json(body, "Token", "the metadata server");
}

}  // namespace

FoundCredentials find_credentials(const std::string& region) {
  std::string why;
  const auto is_found = [&](const FoundCredentials& found) {
    if (!found.why.empty()) why += (why.empty() ? "" : "; ") + found.why;
    return found.credentials.are_there();
  };
  if (FoundCredentials found = of_environment(); is_found(found)) return found;
  if (FoundCredentials found = of_profile(); is_found(found)) return found;
  if (FoundCredentials found = of_process(); is_found(found)) return found;
  if (FoundCredentials found = of_web_identity(region); is_found(found)) return found;
  if (FoundCredentials found = of_container(); is_found(found)) return found;
  if (FoundCredentials found = of_machine(); is_found(found)) return found;
  return {{}, 0, "there are no credentials (" + why + ")"};
}

std::string region_of_machine() {
  std::string why;
  return trimmed(of_metadata("/latest/meta-data/placement/region", why));
}

Credentials CredentialSource::get(std::string& why) {
  const std::lock_guard lock(mutex_);
  const int64_t now_s = std::time(nullptr);
  if (now_s >= ask_again_s_) {
    FoundCredentials fresh = find_credentials(region_);
    // A server that fails for a moment does not take credentials that still hold.
    const bool still_holds = found_.credentials.are_there() && found_.expires_s > now_s;
    if (fresh.credentials.are_there() || !still_holds) found_ = std::move(fresh);
    if (!found_.credentials.are_there())
      ask_again_s_ = now_s + kAskInVainAgain_s;
    else if (found_.expires_s == 0)
      ask_again_s_ = now_s + kReadFilesAgain_s;
    else
      ask_again_s_ = std::max(found_.expires_s - kAskBeforeEnd_s, now_s + kAskInVainAgain_s);
  }
  why = found_.why;
  Credentials credentials = found_.credentials;
  credentials.region = region_;
  return credentials;
}

}  // namespace hearth::s3
