package kafka_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/barnabas-webhooks/barnabas/internal/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConfig_DefaultIsValid(t *testing.T) {
	t.Parallel()
	require.NoError(t, kafka.DefaultConfig().Validate())
}

func TestConfig_ValidateNamesEachProblem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*kafka.Config)
		want   []string
	}{
		"no brokers":     {func(c *kafka.Config) { c.Brokers = nil }, []string{"brokers: at least one"}},
		"no port":        {func(c *kafka.Config) { c.Brokers = []string{"a:1", "b"} }, []string{`brokers: item 2: "b" is not host:port`}},
		"no host":        {func(c *kafka.Config) { c.Brokers = []string{":9092"} }, []string{"item 1"}},
		"a URL":          {func(c *kafka.Config) { c.Brokers = []string{"kafka://a:1"} }, []string{"item 1"}},
		"a list in one":  {func(c *kafka.Config) { c.Brokers = []string{"a:1 b:2"} }, []string{"item 1"}},
		"port range":     {func(c *kafka.Config) { c.Brokers = []string{"a:99999"} }, []string{"1 to 65535"}},
		"port name":      {func(c *kafka.Config) { c.Brokers = []string{"a:kafka"} }, []string{"1 to 65535"}},
		"empty item":     {func(c *kafka.Config) { c.Brokers = []string{"a:1", ""} }, []string{"item 2"}},
		"twice":          {func(c *kafka.Config) { c.Brokers = []string{"a:1", "a:1"} }, []string{"twice"}},
		"IPv6":           {func(c *kafka.Config) { c.Brokers = []string{"[::1]:9092"} }, nil},
		"no dial limit":  {func(c *kafka.Config) { c.DialTimeout = 0 }, []string{"dial_timeout: must be more than 0"}},
		"negative limit": {func(c *kafka.Config) { c.RetryTimeout = -time.Second }, []string{"retry_timeout: must be more than 0, not -1s"}},
		"cert, no key": {func(c *kafka.Config) {
			c.TLS = kafka.TLS{Enabled: true, CertFile: "x"}
		}, []string{"tls.cert_file: cert_file and key_file belong together"}},
		"forgotten switch": {func(c *kafka.Config) { c.TLS.CAFile = "x" }, []string{"tls.enabled: is false"}},
		"mechanism": {func(c *kafka.Config) {
			c.SASL = kafka.SASL{Mechanism: "scram", Username: "u", Password: "planted-secret"}
		}, []string{`sasl.mechanism: must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, not "scram"`}},
		"no mechanism": {func(c *kafka.Config) { c.SASL.Password = "planted-secret" }, []string{"sasl.mechanism: is empty"}},
		"no user, no password": {
			func(c *kafka.Config) { c.SASL.Mechanism = kafka.MechanismPlain },
			[]string{"sasl.username: is needed", "sasl.password: password or password_file"},
		},
		"password twice": {func(c *kafka.Config) {
			c.SASL = kafka.SASL{Mechanism: kafka.MechanismPlain, Username: "u", Password: "planted-secret", PasswordFile: "f"}
		}, []string{"both set"}},
		"all at once": {func(c *kafka.Config) {
			*c = kafka.Config{}
		}, []string{"brokers:", "dial_timeout:", "request_timeout:", "retry_timeout:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := kafka.DefaultConfig()
			c.change(&conf)
			err := conf.Validate()
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "planted-secret")
			var field *kafka.FieldError
			require.ErrorAs(t, err, &field)
		})
	}
}
