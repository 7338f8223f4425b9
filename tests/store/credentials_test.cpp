// SPDX-License-Identifier: Apache-2.0
// Where credentials come from. The order is compared with botocore's; the servers are a stand-in
// (credentials_server.py).
#include "s3/credentials.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "base/file.h"
#include "s3/request.h"
#include "s3/settings.h"
#include "support/environment.h"
#include "support/python.h"
#include "support/text_file.h"

namespace hearth::s3 {
namespace {

using testing::HasSubstr;

// The variables that the AWS tools read are ours while this lives.
struct CredentialsTest : testing::Test {
  CredentialsTest() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    const std::string script = test::source_path("tests/store/credentials_server.py"), folder = scratch.path().string();
    process = ::fork();
    if (process == 0) {
      ::dup2(ends[0], 0);
      ::execlp("python3", "python3", script.c_str(), folder.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[0]);
    input = ends[1];
    for (int i = 0; i < 15000 && !path_exists(scratch / "port"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    server = "http://127.0.0.1:" + read_file(scratch / "port");
    for (const char* name :
         {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE",
          "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
          "AWS_ENDPOINT_URL_STS", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
          "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
          "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_DISABLED"})
      set(name, nullptr);
    set("AWS_CONFIG_FILE", (scratch / "config").c_str());
    set("AWS_SHARED_CREDENTIALS_FILE", (scratch / "credentials").c_str());
    set("AWS_EC2_METADATA_DISABLED", "true");
  }
  ~CredentialsTest() override {
    ::close(input);
    ::waitpid(process, nullptr, 0);
    for (const auto& [name, value] : before)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  void set(const char* name, const char* value) {
    const char* old = std::getenv(name);
    before.emplace(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  // "KEY SECRET TOKEN"
  static std::string found() {
    const Credentials c = find_credentials("eu-west-1").credentials;
    return fmt::format("{} {} {}", c.access_key, c.secret_key, c.session_token);
  }
  static std::string why() { return find_credentials("eu-west-1").why; }
  void use_machine() {
    set("AWS_EC2_METADATA_DISABLED", nullptr);
    set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.c_str());
  }
  // That the server got.
  int64_t requests() const {
    const std::string log = path_exists(scratch / "log") ? read_file(scratch / "log") : "";
    return std::count(log.begin(), log.end(), '\n');
  }
  StoreResult ask_store(const std::string& name, const FoundCredentials& with) const {
    const StoreAccess place{
        .endpoint = server, .credentials = with.credentials, .no_credentials = {with.failure, with.why}, .attempts = 1};
    Answer answer;
    return Connection().send(place, {.method = "GET", .name = name}, answer);
  }
  // The same from botocore, which has the names of the AWS tools. Its process has other variables than this one.
  std::string botocores(const std::string& profile) const {
    const auto run = test::run_python(fmt::format(
        "-c \"import os, sys\nimport botocore.session\n"
        "for name in ('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'): os.environ.pop(name, None)\n"
        "os.environ.update(AWS_PROFILE=sys.argv[1], AWS_CONFIG_FILE=sys.argv[2], "
        "AWS_SHARED_CREDENTIALS_FILE=sys.argv[3])\n"
        "c = botocore.session.Session().get_credentials()\n"
        "print('  ' if c is None else f'{{c.access_key}} {{c.secret_key}} {{c.token or str()}}', end='')\" {} {} {}",
        profile, (scratch / "config").string(), (scratch / "credentials").string()));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return run.output;
  }

  test::ScratchFolder scratch;
  std::map<std::string, std::optional<std::string>> before;
  std::string server;
  pid_t process = -1;
  int input = -1;
};

TEST_F(CredentialsTest, ComeFromVariablesThenFromTheProfilesFiles) {
  EXPECT_EQ(found(), "  ");
  EXPECT_THAT(why(), HasSubstr("AWS_EC2_METADATA_DISABLED"));
  test::write_text(scratch / "config",
                   "[default]\naws_access_key_id = C\naws_secret_access_key = c\n"
                   "[profile mine]\naws_access_key_id = M\naws_secret_access_key = m\n");
  EXPECT_EQ(found(), "C c ");
  test::write_text(scratch / "credentials",
                   "[default]\naws_access_key_id = F\naws_secret_access_key = f\n"
                   "aws_session_token = t/=\n");
  EXPECT_EQ(found(), "F f t/=");
  set("AWS_PROFILE", "mine");
  EXPECT_EQ(found(), "M m ");
  set("AWS_ACCESS_KEY_ID", "E");
  set("AWS_SECRET_ACCESS_KEY", "e");
  EXPECT_EQ(found(), "E e ");
}

TEST_F(CredentialsTest, OfAProcessAreThoseThatItPrints) {
  test::write_text(scratch / "config",
                   fmt::format("[default]\ncredential_process = cat {}\n", (scratch / "printed").string()));
  test::write_text(scratch / "printed", R"({"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "p",
                                            "SessionToken": "pt", "Expiration": "2126-01-31T23:59:59Z"})");
  EXPECT_EQ(found(), "P p pt");
  EXPECT_EQ(find_credentials("").expires_s, 4925577599);  // date --date 2126-01-31T23:59:59Z +%s
  test::write_text(scratch / "printed", "no JSON");
  EXPECT_THAT(why(), HasSubstr("credential_process does not answer with JSON"));
  remove_file(scratch / "printed");
  EXPECT_THAT(why(), HasSubstr("credential_process fails"));
}

TEST_F(CredentialsTest, OfAWebIdentityComeFromSts) {
  test::write_text(scratch / "token", "web/t+k&n==\n");
  set("AWS_WEB_IDENTITY_TOKEN_FILE", (scratch / "token").c_str());
  set("AWS_ROLE_ARN", "arn:aws:iam::1:role/a+b");
  set("AWS_ENDPOINT_URL_STS", server.c_str());
  EXPECT_EQ(found(), "web web-secret web-token");
  test::write_text(scratch / "token", "other");
  EXPECT_THAT(why(), HasSubstr("the web identity answers 403"));
}

TEST_F(CredentialsTest, OfAContainerNeedItsTokenAndATrustedServer) {
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", (server + "/container").c_str());
  EXPECT_THAT(why(), HasSubstr("answers 401"));
  EXPECT_THAT(why(), testing::Not(HasSubstr("/container")));  // the path may be a secret
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token");
  EXPECT_EQ(found(), "container container-secret container-token");
  test::write_text(scratch / "token", "container-token\n");
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN", nullptr);
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", (scratch / "token").c_str());
  EXPECT_EQ(found(), "container container-secret container-token");
  for (const char* other : {"http://192.0.2.1/container", "http://127.0.0.1.example/container",
                            "http://127.0.0.1:80@example/container", "https://a@example/container"}) {
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", other);
    EXPECT_THAT(why(), HasSubstr("neither encrypted nor on this host")) << other;
  }
}

TEST_F(CredentialsTest, OfAMachineComeLastAndItKnowsTheRegion) {
  set("AWS_EC2_METADATA_DISABLED", nullptr);
  set("AWS_EC2_METADATA_SERVICE_ENDPOINT", (server + "/").c_str());
  EXPECT_EQ(found(), "machine machine-secret machine-token");
  EXPECT_EQ(region_of_machine(), "eu-north-1");
  set("AWS_EC2_METADATA_DISABLED", "True");
  EXPECT_EQ(region_of_machine(), "");
}

TEST_F(CredentialsTest, AreThoseOfBotocore) {
  HEARTH_NEEDS_ORACLE();
  test::write_text(scratch / "config",
                   "[default]\naws_access_key_id = C\naws_secret_access_key = c\n"
                   "[profile mine]\naws_access_key_id=M\naws_secret_access_key= m\n"
                   "[profile none]\nregion = x\n");
  test::write_text(scratch / "credentials",
                   "[default]\naws_access_key_id = F\naws_secret_access_key = f\n"
                   "aws_session_token = t/=\n[mine]\n# nothing\n");
  for (const char* profile : {"default", "mine", "none"}) {
    set("AWS_PROFILE", profile);
    EXPECT_EQ(found(), botocores(profile)) << profile;
  }
}

constexpr int64_t kNow_s = 1'800'000'000;  // 2027-01-15T08:00:00Z, date --date @1800000000

TEST_F(CredentialsTest, AreAskedForAgainOnlyBeforeTheyExpire) {
  use_machine();
  test::write_text(scratch / "expires", "2027-01-15T09:00:00Z");
  CredentialSource source("eu-west-1");
  for (const int64_t now_s : {kNow_s, kNow_s + 1, kNow_s + 3299}) {
    EXPECT_EQ(source.get(now_s).credentials.access_key, "machine");
    EXPECT_EQ(source.get(now_s).credentials.region, "eu-west-1");
    EXPECT_EQ(requests(), 4) << now_s;  // two tokens, the role, its keys
  }
  test::write_text(scratch / "expires", "2027-01-15T09:55:30Z");
  EXPECT_EQ(source.get(kNow_s + 3300).expires_s, kNow_s + 6930);
  EXPECT_EQ(requests(), 8);
  EXPECT_EQ(source.get(kNow_s + 6629).why, "");
  EXPECT_EQ(requests(), 8);
}

// Also if they hold for less than a minute.
TEST_F(CredentialsTest, AreNotUsedAfterTheyExpire) {
  use_machine();
  test::write_text(scratch / "expires", "2027-01-15T08:00:30Z");
  CredentialSource source("eu-west-1");
  EXPECT_EQ(source.get(kNow_s).expires_s, kNow_s + 30);
  test::write_text(scratch / "expires", "2027-01-15T09:00:00Z");
  source.get(kNow_s + 29);
  EXPECT_EQ(requests(), 4);
  EXPECT_EQ(source.get(kNow_s + 30).expires_s, kNow_s + 3600);
  EXPECT_EQ(requests(), 8);
}

TEST_F(CredentialsTest, OutliveAFailureUntilTheyExpireAndThenNoRequestGoesUnsigned) {
  use_machine();
  test::write_text(scratch / "expires", "2027-01-15T09:00:00Z");
  CredentialSource source("eu-west-1");
  EXPECT_EQ(source.get(kNow_s).credentials.access_key, "machine");
  test::write_text(scratch / "failures", "1000");
  EXPECT_EQ(source.get(kNow_s + 3400).credentials.access_key, "machine");
  for (const int64_t now_s : {kNow_s + 3600, kNow_s + 3700}) {
    const FoundCredentials none = source.get(now_s);
    EXPECT_FALSE(none.credentials.are_there());
    remove_file(scratch / "failures");
    const int64_t asked = requests();
    EXPECT_EQ(ask_store("private/x", none).kind, StoreResult::Kind::kUnreachable) << now_s;
    EXPECT_EQ(requests(), asked);
    test::write_text(scratch / "failures", "1000");
  }
}

TEST_F(CredentialsTest, WithoutAnEndOutliveAFailure) {
  test::write_text(scratch / "config", "[default]\naws_access_key_id = C\naws_secret_access_key = c\n");
  CredentialSource source("eu-west-1");
  EXPECT_EQ(source.get(kNow_s).credentials.access_key, "C");
  remove_file(scratch / "config");
  EXPECT_EQ(source.get(kNow_s + 1000).credentials.access_key, "C");
  test::write_text(scratch / "config", "[default]\naws_access_key_id = D\naws_secret_access_key = d\n");
  EXPECT_EQ(source.get(kNow_s + 2000).credentials.access_key, "D");
}

TEST_F(CredentialsTest, OfAServerThatFailsForAMomentAreFound) {
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", (server + "/container").c_str());
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token");
  test::write_text(scratch / "failures", "2");
  EXPECT_EQ(found(), "container container-secret container-token");
  EXPECT_EQ(requests(), 3);
  // A container's server that fails is no reason to be another machine.
  use_machine();
  test::write_text(scratch / "failures", "3");
  const FoundCredentials none = find_credentials("eu-west-1");
  EXPECT_EQ(none.failure, StoreResult::Kind::kUnreachable);
  EXPECT_THAT(none.why, HasSubstr("answers 503"));
  EXPECT_EQ(found(), "container container-secret container-token");
  EXPECT_EQ(requests(), 7);
}

TEST_F(CredentialsTest, ThatAreNotConfiguredLeaveRequestsUnsigned) {
  const FoundCredentials none = find_credentials("eu-west-1");
  EXPECT_EQ(none.failure, StoreResult::Kind::kDone);
  EXPECT_THAT(ask_store("private/x", none).why, HasSubstr("AccessDenied; there are no credentials"));
  EXPECT_EQ(read_file(scratch / "log"), "GET /private/x 403\n");
  FoundCredentials some;
  some.credentials = {"key", "secret", "", "eu-west-1"};
  EXPECT_THAT(ask_store("private/x", some).why, testing::EndsWith("AccessDenied"));
  EXPECT_THAT(read_file(scratch / "log"), testing::EndsWith("GET /private/x 403 signed\n"));
  EXPECT_THAT(ask_store("moved/x", some).why, HasSubstr("the bucket is in eu-south-2: set AWS_REGION"));
}

TEST_F(CredentialsTest, NeedBothHalvesOfAPair) {
  use_machine();
  set("AWS_ACCESS_KEY_ID", "E");
  EXPECT_THAT(why(), HasSubstr("AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"));
  set("AWS_ACCESS_KEY_ID", nullptr);
  set("AWS_SECRET_ACCESS_KEY", "e");
  EXPECT_THAT(why(), HasSubstr("AWS_SECRET_ACCESS_KEY is set without AWS_ACCESS_KEY_ID"));
  set("AWS_SECRET_ACCESS_KEY", nullptr);
  test::write_text(scratch / "credentials", "[default]\naws_access_key_id = F\n");
  EXPECT_THAT(why(), HasSubstr("the profile default: aws_access_key_id is set without aws_secret_access_key"));
  EXPECT_EQ(find_credentials("").failure, StoreResult::Kind::kRefused);
}

TEST_F(CredentialsTest, OfANamedProfileOrOfARoleAreNoOthers) {
  use_machine();
  test::write_text(scratch / "config",
                   "[profile none]\nregion = x\n"
                   "[profile role]\nrole_arn = arn\nsource_profile = role\n"
                   "aws_access_key_id = R\naws_secret_access_key = r\n");
  EXPECT_EQ(found(), "machine machine-secret machine-token");
  for (const char* profile : {"none", "missing"}) {
    set("AWS_PROFILE", profile);
    EXPECT_THAT(why(), HasSubstr(fmt::format("the profile {}, which AWS_PROFILE names", profile)));
  }
  set("AWS_PROFILE", "role");
  EXPECT_THAT(why(), HasSubstr("the profile role assumes a role, which is not read"));
  set("AWS_PROFILE", nullptr);
  test::write_text(scratch / "config", "[default]\nrole_arn = arn\ncredential_source = Ec2InstanceMetadata\n");
  EXPECT_THAT(why(), HasSubstr("the profile default assumes a role"));
  EXPECT_EQ(found(), "  ");
}

TEST(Settings, AmazonsHostsInChinaHaveAnotherEnd) {
  EXPECT_EQ(amazon_domain("cn-north-1"), "amazonaws.com.cn");
  for (const char* region : {"us-east-1", "us-gov-west-1", "ca-central-1"})
    EXPECT_EQ(amazon_domain(region), "amazonaws.com");
}

TEST_F(CredentialsTest, OfAProfileWithSsoSayWhatToDo) {
  test::write_text(scratch / "config", "[default]\nsso_session = work\n");
  EXPECT_THAT(why(), HasSubstr("aws configure export-credentials"));
}

}  // namespace
}  // namespace hearth::s3
