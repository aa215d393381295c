package interop

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

type service struct {
	testpb.UnimplementedTestServiceServer
}

func (service) UnaryCall(_ context.Context, r *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	return &testpb.SimpleResponse{Payload: r.Payload}, nil
}

func (service) FullDuplexCall(s testpb.TestService_FullDuplexCallServer) error {
	for {
		r, err := s.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(&testpb.StreamingOutputCallResponse{Payload: r.Payload}); err != nil {
			return err
		}
	}
}

// TestGRPC: single calls of many goroutines, and one stream in both directions.
func TestGRPC(t *testing.T) {
	inEachWorld(t, 1, 0, func(t *testing.T, w world) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ln, err := w.listen("tcp", w.at)
		require.NoError(t, err)
		server := grpc.NewServer()
		testpb.RegisterTestServiceServer(server, service{})
		served := make(chan error, 1)
		go func() { served <- server.Serve(ln) }()
		client, err := grpc.NewClient("passthrough:///"+ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return w.dial(ctx, "tcp", address) }))
		require.NoError(t, err)
		test := testpb.NewTestServiceClient(client)
		together(t, func(worker int) error {
			for i := range requests {
				text := fmt.Sprint(worker, i)
				r, err := test.UnaryCall(ctx, &testpb.SimpleRequest{Payload: &testpb.Payload{Body: []byte(text)}})
				if err != nil {
					return err
				}
				if string(r.Payload.Body) != text {
					return fmt.Errorf("got %q, want %q", r.Payload.Body, text)
				}
			}
			return nil
		})
		stream, err := test.FullDuplexCall(ctx)
		require.NoError(t, err)
		begun := time.Now()
		for i := range 4 * requests {
			require.NoError(t, stream.Send(&testpb.StreamingOutputCallRequest{Payload: &testpb.Payload{Body: make([]byte, i)}}))
			r, err := stream.Recv()
			require.NoError(t, err)
			require.Len(t, r.Payload.Body, i)
		}
		pingPong := time.Since(begun)
		const flow = 20_000
		sent := make(chan error, 1)
		begun = time.Now()
		go func() {
			for i := range flow {
				if err := stream.Send(&testpb.StreamingOutputCallRequest{Payload: &testpb.Payload{Body: make([]byte, i%100)}}); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		for i := range flow {
			r, err := stream.Recv()
			require.NoError(t, err)
			require.Len(t, r.Payload.Body, i%100)
		}
		require.NoError(t, <-sent)
		t.Logf("%s: %d messages there and back one after the other %v; %d without waiting %v", w.name, 4*requests,
			pingPong.Round(time.Millisecond), flow, time.Since(begun).Round(time.Millisecond))
		require.NoError(t, stream.CloseSend())
		_, err = stream.Recv()
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, client.Close())
		server.GracefulStop()
		require.NoError(t, <-served)
	})
}
