//! Checks a request's bytes against the descriptor of its message before they are decoded: form, UTF-8 and the number
//! of elements.
//!
//! A decoder takes memory for every element at once, and an empty one costs two bytes on the wire and up to two hundred
//! in memory. So elements are counted first, and no message that the decoder would refuse reaches it.

use std::collections::HashMap;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};
use tonic::Status;

use crate::rules::{field_rules, request_limits};

/// Depth of nested messages that the decoder accepts.
const MAX_DEPTH: usize = 100;

/// One method of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Method {
    input: usize,
    /// Whether the client sends a stream of requests.
    pub(super) streams: bool,
    /// Bytes of one request.
    pub(super) bytes: usize,
    elements: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldKind {
    /// Integers, enums and flags.
    Varint,
    Fixed32,
    Fixed64,
    Text,
    Bytes,
    Message(usize),
}

#[derive(Debug)]
struct Field {
    number: u64,
    name: String,
    kind: FieldKind,
    repeated: bool,
    /// Elements in one message.
    most: usize,
}

/// The messages and methods of compiled `.proto` files.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// Fields of each message.
    messages: Vec<Vec<Field>>,
    methods: HashMap<String, Method>,
}

impl Schema {
    /// Of several compiled sets; duplicates are ignored.
    pub(super) fn new(sets: &[&[u8]]) -> Result<Self, prost::DecodeError> {
        let sets = sets
            .iter()
            .map(|bytes| FileDescriptorSet::decode(*bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let files: Vec<_> = sets.iter().flat_map(|set| &set.file).collect();
        let mut messages = Vec::new();
        for file in &files {
            let package = if file.package().is_empty() {
                String::new()
            } else {
                format!(".{}", file.package())
            };
            collect(&package, &file.message_type, &mut messages);
        }
        let places: HashMap<&str, usize> = messages
            .iter()
            .enumerate()
            .map(|(place, (name, _))| (name.as_str(), place))
            .collect();
        let fields = messages
            .iter()
            .map(|(name, message)| fields(name, message, &places))
            .collect();
        let mut methods = HashMap::new();
        for file in files {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let Some(input) = places.get(method.input_type()).copied() else {
                        continue;
                    };
                    let limits = request_limits(&path);
                    let (bytes, elements) = (limits.bytes as usize, limits.elements as usize);
                    methods.insert(
                        path,
                        Method {
                            input,
                            streams: method.client_streaming(),
                            bytes,
                            elements,
                        },
                    );
                }
            }
        }
        Ok(Self {
            messages: fields,
            methods,
        })
    }

    /// The method that a path names.
    pub(super) fn method(&self, path: &str) -> Option<Method> {
        self.methods.get(path).copied()
    }

    /// Counts the strings and messages in bytes that the decoder may have; the status says why it may not.
    pub(super) fn check(&self, method: Method, bytes: &[u8]) -> Result<usize, Status> {
        let mut left = method.elements;
        let checked = self.check_message(method.input, bytes, &mut left, 0);
        checked.map(|()| method.elements - left).map_err(|fault| match fault {
            Fault::NotUtf8(field) => Status::invalid_argument(format!("`{field}`: expected UTF-8, got other bytes")),
            Fault::Malformed(reason) => Status::invalid_argument(format!("the message is malformed: {reason}")),
            Fault::TooMany(field, most) => {
                Status::invalid_argument(format!("`{field}`: expected at most {most} elements, got more"))
            }
            Fault::Elements => Status::invalid_argument(format!(
                "the message holds more than {} strings and messages. Send fewer in one request",
                method.elements
            )),
        })
    }

    fn check_message(&self, message: usize, bytes: &[u8], left: &mut usize, depth: usize) -> Result<(), Fault<'_>> {
        if depth > MAX_DEPTH {
            return Err(Fault::Malformed("messages are nested too deep"));
        }
        let fields = self.messages.get(message).map_or(&[][..], Vec::as_slice);
        let mut counts = [0usize; 32];
        let mut rest = bytes;
        while !rest.is_empty() {
            let key = varint(&mut rest)?;
            let (number, wire) = (key >> 3, key & 7);
            if number == 0 || number > u64::from(u32::MAX >> 3) {
                return Err(Fault::Malformed("a field's number is out of range"));
            }
            let found = fields.iter().position(|field| field.number == number);
            let field = found.and_then(|place| fields.get(place));
            let value = value(wire, &mut rest)?;
            let Some(field) = field else { continue };
            let WireValue::Delimited(content) = value else {
                let fits = matches!(
                    (field.kind, value),
                    (FieldKind::Varint, WireValue::Varint)
                        | (FieldKind::Fixed32, WireValue::Fixed32)
                        | (FieldKind::Fixed64, WireValue::Fixed64)
                );
                if !fits {
                    return Err(Fault::Malformed("a field is not of its type"));
                }
                continue;
            };
            if let Some(count) = found.and_then(|place| counts.get_mut(place)) {
                *count += 1;
                if *count > field.most {
                    return Err(Fault::TooMany(&field.name, field.most));
                }
            }
            *left = left.checked_sub(1).ok_or(Fault::Elements)?;
            match field.kind {
                FieldKind::Text if std::str::from_utf8(content).is_err() => {
                    return Err(Fault::NotUtf8(&field.name));
                }
                FieldKind::Text | FieldKind::Bytes => {}
                FieldKind::Message(inner) => self.check_message(inner, content, left, depth + 1)?,
                // Numbers packed into one field; those of fixed length take no more memory decoded.
                FieldKind::Fixed32 | FieldKind::Fixed64 if field.repeated => {
                    if !content
                        .len()
                        .is_multiple_of(if field.kind == FieldKind::Fixed32 { 4 } else { 8 })
                    {
                        return Err(CUT);
                    }
                }
                FieldKind::Varint if field.repeated => {
                    *left = left.checked_sub(content.len() / 4).ok_or(Fault::Elements)?;
                }
                FieldKind::Varint | FieldKind::Fixed32 | FieldKind::Fixed64 => {
                    return Err(Fault::Malformed("a field is not of its type"));
                }
            }
        }
        Ok(())
    }
}

/// All messages with their full names, those declared inside others too.
fn collect<'a>(prefix: &str, declared: &'a [DescriptorProto], into: &mut Vec<(String, &'a DescriptorProto)>) {
    for message in declared {
        let name = format!("{prefix}.{}", message.name());
        collect(&name, &message.nested_type, into);
        into.push((name, message));
    }
}

fn fields(message: &str, descriptor: &DescriptorProto, places: &HashMap<&str, usize>) -> Vec<Field> {
    let of = |field: &prost_types::FieldDescriptorProto| {
        let kind = match field.r#type() {
            Type::Fixed32 | Type::Sfixed32 | Type::Float => FieldKind::Fixed32,
            Type::Fixed64 | Type::Sfixed64 | Type::Double => FieldKind::Fixed64,
            Type::String => FieldKind::Text,
            Type::Message | Type::Group => places
                .get(field.type_name())
                .map_or(FieldKind::Bytes, |place| FieldKind::Message(*place)),
            Type::Bytes => FieldKind::Bytes,
            _ => FieldKind::Varint,
        };
        let rules = message
            .strip_prefix(".dyad.v1.")
            .and_then(|message| field_rules(message, field.name()));
        Field {
            number: field.number().unsigned_abs().into(),
            name: field.name().to_owned(),
            kind,
            repeated: field.label() == Label::Repeated,
            most: rules.map_or(usize::MAX, |rules| rules.most_items()),
        }
    };
    descriptor.field.iter().map(of).collect()
}

#[derive(Debug)]
enum Fault<'a> {
    Malformed(&'static str),
    NotUtf8(&'a str),
    TooMany(&'a str, usize),
    Elements,
}

#[derive(Debug, Clone, Copy)]
enum WireValue<'a> {
    Varint,
    Fixed32,
    Fixed64,
    Delimited(&'a [u8]),
}

const CUT: Fault<'static> = Fault::Malformed("it ends in the middle of a field");

fn varint(rest: &mut &[u8]) -> Result<u64, Fault<'static>> {
    let mut value = 0;
    for place in 0..10 {
        let (byte, after) = rest.split_first().ok_or(CUT)?;
        *rest = after;
        if place == 9 && *byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Fault::Malformed("a number has more than 64 bits"))
}

fn value<'a>(wire: u64, rest: &mut &'a [u8]) -> Result<WireValue<'a>, Fault<'static>> {
    let take = |bytes: usize, rest: &mut &'a [u8]| {
        let (content, after) = rest.split_at_checked(bytes).ok_or(CUT)?;
        *rest = after;
        Ok(content)
    };
    Ok(match wire {
        0 => {
            varint(rest)?;
            WireValue::Varint
        }
        1 => {
            take(8, rest)?;
            WireValue::Fixed64
        }
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| CUT)?;
            WireValue::Delimited(take(length, rest)?)
        }
        5 => {
            take(4, rest)?;
            WireValue::Fixed32
        }
        _ => return Err(Fault::Malformed("a field has an unknown wire type")),
    })
}

#[cfg(test)]
mod tests;
