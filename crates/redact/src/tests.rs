//! Tests which texts the secret filter hides, and which it does not change.

use super::*;
fn check_value(before: &str, after: &str) {
    let value = redacted(parse(before.as_bytes()).unwrap());
    assert_eq!(Writer::new(Layout::Line).to_string(&value), after);
}

#[test]
fn secrets_are_hidden_and_nothing_else() {
    check_value(
        r#"{"WANDB_API_KEY": "abc", "nested": [{"hf_token": "x"}], "max_tokens": 5}"#,
        r#"{"WANDB_API_KEY": "[redacted]", "nested": [{"hf_token": "[redacted]"}], "max_tokens": 5}"#,
    );
    check_value(
        r#""failed with sk-abcdefghijklmnop0123 at step 3""#,
        r#""failed with [redacted] at step 3""#,
    );
    check_value(
        r#""task-force hf_hub ask-me""#,
        r#""task-force hf_hub ask-me""#,
    );
    check_value(
        r#"{"token": 5, "stage": "tokenize"}"#,
        r#"{"token": 5, "stage": "tokenize"}"#,
    );
}

#[test]
fn what_is_inside_of_a_secret_is_one() {
    check_value(
        r#"{"api_key": ["a", 1], "password": {"of": {"me": "b"}}, "accessToken": "c"}"#,
        r#"{"api_key": ["[redacted]", 1], "password": {"of": {"me": "[redacted]"}}, "accessToken": "[redacted]"}"#,
    );
}

#[test]
fn values_that_are_no_secrets_stay() {
    for text in [
        r#"{"eos_token": "</s>", "tokenizer.pad_token": "<pad>"}"#,
        r#"{"time_per_token": "0.31", "api_key": null, "password": "None"}"#,
    ] {
        check_value(text, text);
    }
}

#[test]
fn a_flag_of_the_program_is_recognized_at_the_end_of_a_long_command_line() {
    let mut words = vec!["mysqldump".to_owned()];
    words.extend((0..100).map(|number| format!("table_{number}")));
    words.push("-phunter2".to_owned());
    let line = redacted_words(&words);
    assert!(line.ends_with("table_99 -p[redacted]"), "{line}");
}

#[test]
fn a_command_line_keeps_its_words_but_not_its_secrets() {
    check_value(
        r#"{"command_line": "python train.py --hf-token  abc --lr 3 --api-key=def --password"}"#,
        r#"{"command_line": "python train.py --hf-token  [redacted] --lr 3 --api-key=[redacted] --password"}"#,
    );
    check_value(
        r#"{"text": "the flag --password is wrong"}"#,
        r#"{"text": "the flag --password is wrong"}"#,
    );
    check_value(
        r#"{"argv": ["x", "--api-key", "abc", "--lr", "3", "--token=def"]}"#,
        r#"{"argv": ["x", "--api-key", "[redacted]", "--lr", "3", "--token=[redacted]"]}"#,
    );
    let words = ["x", "--password", "a b", "-H", "X-Api-Key: c", "--lr", "3"];
    assert_eq!(
        redacted_words(&words.map(str::to_owned)),
        "x --password [redacted] -H X-Api-Key: [redacted] --lr 3"
    );
}

fn check(before: &str, after: &str) {
    assert_eq!(redacted_text(before.into()), *after);
}

#[test]
fn secrets_in_words_are_hidden() {
    for (before, after) in [
        (
            "login failed: password=hunter2, user=me",
            "login failed: password=[redacted], user=me",
        ),
        ("api-key='a b' x=1", "api-key='[redacted]' x=1"),
        ("password = hunter2, n = 1", "password = [redacted], n = 1"),
        ("accessToken=abc", "accessToken=[redacted]"),
        (
            "GET https://me:pw@host:8080/path?a=b&sig=x%2B",
            "GET https://[redacted]@host:8080/path?a=b&sig=[redacted]",
        ),
        (
            "-H Authorization: Bearer abc --lr 3",
            "-H Authorization: [redacted] --lr 3",
        ),
        (
            "'Authorization': 'Basic YTpi', x",
            "'Authorization': '[redacted]', x",
        ),
        ("x-api-key: abc\nn: 1", "x-api-key: [redacted]\nn: 1"),
        ("a bearer abcdefghijklmnop1", "a [redacted]"),
        (
            "key eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc!",
            "key [redacted]!",
        ),
        (
            "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb",
            "a\n-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nb",
        ),
    ] {
        check(before, after);
        check(after, after);
    }
}

#[test]
fn secrets_in_documents_inside_of_documents_are_hidden() {
    for (before, after) in [
        (
            r#"{"api_key" : "a\"b", 'token': 'x', "n": 1, "password": 5"#,
            r#"{"api_key" : "[redacted]", 'token': '[redacted]', "n": 1, "password": 5"#,
        ),
        (
            r#"torn {"api_key": "abc"#,
            r#"torn {"api_key": "[redacted]"#,
        ),
        (
            r#"{"m": "{\"api_key\": \"a\\\"b\", \"n\": 1}""#,
            r#"{"m": "{\"api_key\": \"[redacted]\", \"n\": 1}""#,
        ),
    ] {
        check(before, after);
    }
    check("token = a1B2c3D4e5F6", "token = [redacted]");
    check("password = getpass()", "password = [redacted])");
    // An unclosed quote hides the rest of its line but not the rest of the file.
    check("password: 'a\nstep 3", "password: '[redacted]\nstep 3");
}

#[test]
fn evidence_stays() {
    for text in [
        "steps=5 token= done",
        "mail me@host, see https://host/@me and git@host:a/b",
        "=é=\u{301}://@",
        "\"token\":",
        "hf_hub_download_from_cache in hf_cache/models/bert/layer.0",
        "sk-learn/pipeline/fit_transform, disk-0123456789abcdef0",
        "eos_token=</s> pad_token='<pad>' time_per_token=0.31 ms, token=5",
        "password=None, api_key=\"\", secret: false",
        "unexpected token: 'x' in line 3; bad token: layer",
        "Bearer of bad news",
        "if token == x: y",
        "token = model(token, cache, position)",
        "token = next(streams[number], None)",
        "best_token = logits[:, -1].argmax(-1)",
        "token = sampled",
    ] {
        check(text, text);
    }
}

#[test]
fn a_text_that_no_file_can_hold_is_looked_at_too() {
    let odd = Text::from_bytes(b"password=abc \xed\xa0\x80");
    assert!(
        redacted_text(odd)
            .to_str_lossy()
            .starts_with("password=[redacted] ")
    );
    let odd = Text::from_bytes(b"\xed\xa0\x80");
    assert_eq!(redacted_text(odd.clone()), odd);
}

#[test]
fn a_large_text_takes_no_more_than_its_length() {
    let text = "hf_x sk-y sk-sk- \"token\": \"5\" ://@ PRIVATE KEY= ".repeat(20_000);
    let begun = std::time::Instant::now();
    check(&text, &text);
    assert!(begun.elapsed().as_secs() < 60);
}

#[test]
fn a_second_pass_changes_nothing() {
    for text in [
        "{'cmd': mysql -pS3cret}",
        "mysql -p[redacted]}",
        "run(mysql -p[redacted])",
        "curl -u [redacted]}",
    ] {
        let once = redacted_text(text.into());
        assert!(!once.to_str_lossy().contains("S3cret"), "{once:?}");
        assert_eq!(redacted_text(once.clone()), once, "{text}");
        assert!(!once.to_str_lossy().contains("]]"), "{once:?}");
    }
}
