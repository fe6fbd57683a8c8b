//! Lists the language servers that are used where they are installed. Configured ones come
//! before them.

/// A server for a language, by its programs.
#[derive(Debug)]
pub(super) struct KnownServer {
    /// The first that is there is used.
    pub(super) programs: &'static [KnownProgram],
    /// The languages by the extensions of their files.
    pub(super) extensions: &'static [(&'static str, &'static str)],
    /// Names of files that make a directory a project.
    pub(super) roots: &'static [&'static str],
}

#[derive(Debug)]
pub(super) struct KnownProgram {
    /// What people call it.
    pub(super) name: &'static str,
    pub(super) program: &'static str,
    pub(super) arguments: &'static [&'static str],
    pub(super) needs: Needs,
}

/// What a program needs beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// A TypeScript with `tsserver`, which has ended with version 6.
    Tsserver,
    /// To be a `tsc` from version 7 on, which is a language server itself.
    NativeTypeScript,
}

const fn plain(name: &'static str, arguments: &'static [&'static str]) -> KnownProgram {
    KnownProgram { name, program: name, arguments, needs: Needs::Nothing }
}

pub(super) const KNOWN: [KnownServer; 5] = [
    KnownServer {
        programs: &[plain(RUST_ANALYZER, &[])],
        extensions: &[(".rs", "rust")],
        roots: &["Cargo.toml", "rust-project.json"],
    },
    KnownServer {
        programs: &[
            KnownProgram {
                name: "basedpyright",
                program: "basedpyright-langserver",
                arguments: &["--stdio"],
                needs: Needs::Nothing,
            },
            KnownProgram {
                name: "pyright",
                program: "pyright-langserver",
                arguments: &["--stdio"],
                needs: Needs::Nothing,
            },
        ],
        extensions: &[(".py", "python"), (".pyi", "python")],
        roots: &[
            "pyrightconfig.json",
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "requirements.txt",
        ],
    },
    KnownServer {
        programs: &[
            KnownProgram {
                name: "typescript-language-server",
                program: "typescript-language-server",
                arguments: &["--stdio"],
                needs: Needs::Tsserver,
            },
            KnownProgram {
                name: "tsc",
                program: "tsc",
                arguments: &["--lsp", "--stdio"],
                needs: Needs::NativeTypeScript,
            },
        ],
        extensions: &[
            (".ts", "typescript"),
            (".mts", "typescript"),
            (".cts", "typescript"),
            (".tsx", "typescriptreact"),
            (".js", "javascript"),
            (".mjs", "javascript"),
            (".cjs", "javascript"),
            (".jsx", "javascriptreact"),
        ],
        roots: &["tsconfig.json", "jsconfig.json", "package.json"],
    },
    KnownServer {
        programs: &[plain("gopls", &[])],
        extensions: &[(".go", "go")],
        roots: &["go.work", "go.mod"],
    },
    KnownServer {
        programs: &[plain("clangd", &[])],
        extensions: &[
            (".c", "c"),
            (".h", "c"),
            (".cc", "cpp"),
            (".cpp", "cpp"),
            (".cxx", "cpp"),
            (".hh", "cpp"),
            (".hpp", "cpp"),
            (".m", "objective-c"),
            (".mm", "objective-cpp"),
        ],
        roots: &["compile_commands.json", "compile_flags.txt", ".clangd", "CMakeLists.txt"],
    },
];

/// The server that runs a project's build scripts and macros unless it is told not to.
pub(super) const RUST_ANALYZER: &str = "rust-analyzer";
