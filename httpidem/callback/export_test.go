package callback

// The verifiers with a clock, for tests.
var (
	StripeAt    = stripeAt
	AlipayAt    = alipayAt
	WeChatPayAt = weChatPayAt
)
