// Package listen is a webhook receiver for development and demonstrations: it verifies Standard Webhooks signatures,
// prints one line for each request, and can be told to fail, to be slow, or to fail at first. It counts what it got
// by delivery id, so that loss and repetition can be seen.
//
// It is not for production: it keeps no state and answers anybody.
package listen
