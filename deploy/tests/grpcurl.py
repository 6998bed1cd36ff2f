"""What the READMEs use of grpcurl: grpcurl.py -plaintext -d JSON ADDRESS SERVICE/METHOD, by the server's reflection.

grpcurl itself is in no package index that CI reads.
"""

import argparse
import sys

import grpc
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

DEADLINE_S = 30


def messages(channel, method):
    """The classes of a method's request and reply."""
    service, name = method.rsplit("/", 1)
    pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    described = pool.FindServiceByName(service).FindMethodByName(name)
    return [message_factory.GetMessageClass(one) for one in (described.input_type, described.output_type)]


def unary(channel, method, reply):
    """What makes a unary call, of the class of its reply."""
    serialize = lambda request: request.SerializeToString()  # noqa: E731
    return channel.unary_unary(f"/{method}", request_serializer=serialize, response_deserializer=reply.FromString)


def call(channel, method, json):
    """The reply of a unary method as JSON."""
    request, reply = messages(channel, method)
    return json_format.MessageToJson(unary(channel, method, reply)(json_format.Parse(json, request()), timeout=DEADLINE_S))


def main():
    """Prints the reply; 1 with the status where there is none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-plaintext", action="store_true", required=True)
    parser.add_argument("-d", dest="json", default="{}")
    parser.add_argument("address")
    parser.add_argument("method")
    said = parser.parse_args()
    with grpc.insecure_channel(said.address) as channel:
        try:
            print(call(channel, said.method, said.json))
        except grpc.RpcError as error:
            print(f"{error.code().name}: {error.details()}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
