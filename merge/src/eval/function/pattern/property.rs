//! Names of Unicode properties that the servers know: general categories and scripts, spelled as
//! Unicode spells them. The library knows more, and other spellings.

use crate::plan::Dialect;

/// What no character is in.
pub(super) const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";
const EVERYTHING: &str = r"[\x{0}-\x{10FFFF}]";

const CATEGORIES: [&str; 35] = [
    "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc",
    "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs", "Cc",
    "Cf", "Co", "Cs",
];

/// Scripts of Unicode 13.
const SCRIPTS: &str = "
    Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak
    Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian
    Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot
    Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan
    Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi
    Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic
    Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana
    Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu
    Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean
    Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive
    Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Nandinagari
    New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian
    Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian
    Old_Turkic Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician
    Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting
    Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa
    Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta
    Ugaritic Vai Wancho Warang_Citi Yezidi Yi Zanabazar_Square
";

/// Scripts that Unicode 14 and 15 brought: those of servers since 2.48.
const LATER_SCRIPTS: [&str; 7] = [
    "Cypro_Minoan",
    "Kawi",
    "Nag_Mundari",
    "Old_Uyghur",
    "Tangsa",
    "Toto",
    "Vithkuqi",
];

/// The class of the characters that have a property, or have it not; `None` for an unknown name.
pub(super) fn class(name: &str, is_negated: bool, dialect: Dialect) -> Option<String> {
    let (p, caret) = match is_negated {
        false => ('p', ""),
        true => ('P', "^"),
    };
    let is_script = SCRIPTS.split_whitespace().any(|known| known == name)
        || (dialect.is_at_least(2, 48) && LATER_SCRIPTS.contains(&name));
    match name {
        "Any" => Some(if is_negated { NOTHING } else { EVERYTHING }.to_owned()),
        // Texts hold no surrogates.
        "Cs" => Some(if is_negated { EVERYTHING } else { NOTHING }.to_owned()),
        // The library adds what is not assigned.
        "C" => Some(format!(r"[{caret}\p{{Cc}}\p{{Cf}}\p{{Co}}]")),
        _ if CATEGORIES.contains(&name) => Some(format!(r"\{p}{{gc={name}}}")),
        _ if is_script => Some(format!(r"\{p}{{sc={name}}}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_of_the_library() {
        let names = SCRIPTS
            .split_whitespace()
            .chain(CATEGORIES)
            .chain(LATER_SCRIPTS);
        for name in names.chain(["C", "Any"]) {
            for is_negated in [false, true] {
                let class = class(name, is_negated, Dialect::default());
                let class = class.unwrap_or_else(|| panic!("{name} is unknown"));
                assert!(regex::Regex::new(&class).is_ok(), "{class}");
            }
        }
    }
}
