package schemas_test

import (
	"errors"
	"fmt"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// What a producer without Avro writes: kcat -k ep_42 -H event-type=invoice.paid -H idempotency-key=invoice-7
func ExampleReadEvent() {
	event, err := schemas.ReadEvent([]byte("ep_42"), []byte(`{"total": 12.50}`), []schemas.Header{
		{Key: "event-type", Value: []byte("invoice.paid")},
		{Key: "idempotency-key", Value: []byte("invoice-7")},
	})
	fmt.Println(event.EndpointID, event.EventType, event.IdempotencyKey, event.ContentType, string(event.Payload), err)

	_, err = schemas.ReadEvent([]byte("ep_42"), []byte("garbage"), nil)
	var bad *schemas.DecodeError
	fmt.Println(errors.As(err, &bad), err)
	// Output:
	// ep_42 invoice.paid invoice-7 application/json {"total": 12.50} <nil>
	// true decode event: 7 bytes are no event: neither event-type nor ce_type in the headers, nor Avro single-object encoding
}

func ExampleParseSendBody() {
	body, err := schemas.ParseSendBody([]byte(`{"endpoint_id":"ep_42","event_type":"invoice.paid","payload":{"big": 1E400 }}`))
	fmt.Println(string(body.Payload), err)

	_, err = schemas.ParseSendBody([]byte(`{"endpoint_id":"ep_42","event_type":"invoice.paid","payload":1,"payload":2}`))
	fmt.Println(err)
	// Output:
	// {"big": 1E400 } <nil>
	// decode send body: "payload" stands twice
}

func ExampleDeriveDeliveryID() {
	fmt.Println(schemas.DeriveDeliveryID(schemas.Coordinates{Topic: "barnabas.events", Partition: 3, Offset: 42}, 1772366400123))
	// Output: dlv_ky36thzahpyvta6zxwnd7y8avg
}
