package servers

// Right returns the shops without a fault.
func Right() []Shop {
	return []Shop{
		newFaultyShop("no-faults", faults{}),
		{"like-stripe", openStripe},
		{"unique-index", openUnique},
		{"retrysafe-waits", openWaiting},
		{"retrysafe-ietf", openIETF},
		{"retrysafe-stripe", openStripeContract},
		{"retrysafe-acp", openACP},
	}
}
