//! Two texts as one input, for cross encoders.

use super::tokenizer::Splitter;
use crate::error::Error;

impl Splitter {
    /// Two texts as one input, the longer one cut first where both do not fit. Of a long text only the necessary part
    /// is tokenized.
    pub(super) fn pair_encoding(&self, [first, second]: [&str; 2]) -> Result<tokenizers::Encoding, Error> {
        // Of a text that fills the longest input alone no more than that is kept next to another one. Where both do,
        // the longer one keeps a token more, and only the whole texts tell which that is.
        let parts = [self.enough(first)?, self.enough(second)?];
        let [first, second] = match parts {
            [Some(first), None] if !self.split_whole(second)?.truncated => [first, second],
            [None, Some(second)] if !self.split_whole(first)?.truncated => [first, second],
            _ => [first, second],
        };
        self.encoded((first, second))
    }

    /// The shortest beginning that is known to fill the longest input, where a long text has one.
    fn enough<'a>(&self, text: &'a str) -> Result<Option<&'a str>, Error> {
        for beginning in self
            .cuts
            .iter()
            .flat_map(|cuts| cuts.beginnings(text, self.max_tokens()))
        {
            if self.split_whole(beginning)?.truncated {
                return Ok(Some(beginning));
            }
        }
        Ok(None)
    }
}
