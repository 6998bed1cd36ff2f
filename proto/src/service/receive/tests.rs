//! Messages that come whole, in pieces, compressed, or not at all.

use std::time::Duration;

use http_body::Body as _;

use super::*;

/// A body that gives these pieces, and then waits for ever.
struct Pieces(Vec<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.0.pop() {
            Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            None => Poll::Pending,
        }
    }
}

fn received(pieces: Vec<Bytes>, inbox: &ByteBudget) -> ReceivedRequest {
    let schema = Arc::new(Schema::new(&[crate::v1::FILE_DESCRIPTOR_SET]).unwrap());
    let method = schema.method("/dyad.v1.Encoder/Encode").unwrap();
    let pieces = pieces.into_iter().rev().collect();
    let memory = RequestMemory {
        inbox: inbox.clone(),
        held: HeldBody::default(),
    };
    ReceivedRequest::new(
        Body::new(Pieces(pieces)),
        schema,
        method,
        memory,
        Box::pin(std::future::pending()),
        Some(Encoding::Gzip),
    )
}

/// A message of the encoder that was compressed by gzip, with its header.
fn packed(message: &[u8]) -> Bytes {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, message).unwrap();
    let packed = encoder.finish().unwrap();
    [&[1][..], &(packed.len() as u32).to_be_bytes(), &packed]
        .concat()
        .into()
}

#[tokio::test]
async fn a_compressed_message_comes_as_a_plain_one_would() {
    let next = async |message: Bytes| {
        let mut body = received(vec![message], &super::inbox());
        std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx))
            .await
            .unwrap()
    };
    let text = [0x1a, 1, b'x'];
    let frame = next(packed(&text)).await.unwrap().into_data().unwrap();
    assert_eq!(frame, [&[0, 0, 0, 0, 3][..], &text].concat());
    // No more when it is unpacked than a plain one may have.
    let large = next(packed(&vec![0x1a; 33 << 20])).await.unwrap_err();
    assert_eq!(large.code(), tonic::Code::InvalidArgument);
    assert!(large.message().contains("when it is unpacked"), "{large}");
    let damaged = [&[1, 0, 0, 0, 3][..], &text].concat();
    assert!(next(damaged.into()).await.unwrap_err().message().contains("no gzip"));
    let flag = [&[7, 0, 0, 0, 3][..], &text].concat();
    assert_eq!(next(flag.into()).await.unwrap_err().code(), tonic::Code::Internal);
}

fn poll(body: &mut ReceivedRequest) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
    Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
}

#[tokio::test]
async fn memory_follows_what_came_and_not_what_was_announced() {
    let announced = [&[0][..], &(32u32 << 20).to_be_bytes(), &[0x1a, 0]].concat();
    let mut body = received(vec![announced.into()], &super::inbox());
    assert!(poll(&mut body).is_pending());
    assert!(body.gathered.capacity() < 1024, "{}", body.gathered.capacity());
}

#[tokio::test]
async fn large_requests_share_a_memory_and_give_it_back() {
    let inbox = super::inbox();
    let header = [&[0][..], &(32u32 << 20).to_be_bytes()].concat();
    let piece = Bytes::from(vec![0; 1 << 20]);
    let pieces = |count: usize| {
        std::iter::once(header.clone().into())
            .chain(vec![piece.clone(); count])
            .collect()
    };
    let mut large: Vec<_> = (0..4).map(|_| received(pieces(31), &inbox)).collect();
    assert!(large.iter_mut().all(|body| poll(body).is_pending()));
    let Poll::Ready(Some(Err(refused))) = poll(&mut received(pieces(20), &inbox)) else {
        panic!("expected an error")
    };
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    let small = [&[0, 0, 0, 0, 3][..], &[0x1a, 1, b'x']].concat();
    assert!(matches!(
        poll(&mut received(vec![small.into()], &inbox)),
        Poll::Ready(Some(Ok(_)))
    ));
    large.clear();
    assert!(poll(&mut received(pieces(8), &inbox)).is_pending());
}

#[tokio::test]
async fn a_message_that_stops_coming_ends_the_request() {
    let mut body = received(vec![Bytes::from_static(&[0, 0, 0])], &super::inbox());
    assert!(poll(&mut body).is_pending());
    body.stall.as_mut().reset(Instant::now());
    tokio::time::sleep(Duration::from_millis(5)).await;
    let Poll::Ready(Some(Err(status))) = poll(&mut body) else {
        panic!("expected an error")
    };
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
}
